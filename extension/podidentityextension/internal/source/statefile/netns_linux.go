// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// netNSInode returns the inode number of the network namespace mounted at path.
// It follows no rule but the kernel's own: what is not on nsfs is no namespace,
// as is the empty file that is left of a mount point, whose inode number would
// be a key to nothing.
func netNSInode(path string) (uint64, error) {
	// O_PATH has no effect on what is opened, whatever it is.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, &os.PathError{Op: "fstatfs", Path: path, Err: err}
	}
	if fs.Type != unix.NSFS_MAGIC {
		return 0, fmt.Errorf("%s: %w", path, errNotMounted)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	return st.Ino, nil
}

var errNotMounted = errors.New("no namespace is mounted there")
