// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package statefile

import (
	"os"
	"syscall"
)

// sameFile says whether two stats are of the same file: one that was moved into
// the place of another may be as old and as large.
func sameFile(a, b os.FileInfo) bool { return os.SameFile(a, b) }

// openShared opens a file or a directory for reading. It does not wait for a
// writer where the path turns out to be a named pipe.
func openShared(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
