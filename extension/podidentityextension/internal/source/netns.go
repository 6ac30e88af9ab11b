// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// NetNSPath returns where a network namespace is mounted that others say is at
// path. Runtimes and CNI plugins write /var/run/netns; on a node that is
// /run/netns, by the old name of /run (FHS 3.0, 5.13). A container has only the
// directory that is mounted into it: an image from scratch has no such link, and
// the kubelet's mount of a token makes a real directory of /var/run.
func NetNSPath(path string) string {
	rest, below := strings.CutPrefix(path, "/var/run/")
	if !below {
		return path
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path
	}
	renamed := "/run/" + rest
	// By its directory: a namespace that has gone is missed where it was.
	if info, err := os.Stat(filepath.Dir(renamed)); err != nil || !info.IsDir() {
		return path
	}
	return renamed
}
