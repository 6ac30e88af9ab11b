// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"syscall"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// verbose says whether a sandbox's verbose information is of use.
const verbose = true

// nsfsMagic is NSFS_MAGIC of linux/magic.h.
const nsfsMagic = 0x6e736673

// netnsInode returns the inode of the network namespace that is mounted at path,
// as the runtime names it. In a container that does not share the node's mounts,
// an ordinary file can lie there, whose inode says nothing.
func netnsInode(path string) (uint64, error) {
	path = source.NetNSPath(path)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", path, err)
	}
	if fs.Type != nsfsMagic {
		return 0, fmt.Errorf("network namespace %s: no namespace is mounted there; does the collector share the node's mounts?", path)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", path, err)
	}
	return st.Ino, nil
}
