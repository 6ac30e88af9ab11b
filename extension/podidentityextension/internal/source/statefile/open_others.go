// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package statefile

import (
	"os"
	"syscall"
)

// openShared opens a file or a directory for reading. It does not wait for a
// writer where the path turns out to be a named pipe.
func openShared(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
