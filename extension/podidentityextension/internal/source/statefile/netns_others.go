// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statefile

import "errors"

// netNSInode fails: only Linux has network namespaces with an inode number.
func netNSInode(string) (uint64, error) {
	return 0, errors.ErrUnsupported
}
