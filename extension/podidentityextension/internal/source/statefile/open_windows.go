// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"os"

	"golang.org/x/sys/windows"
)

// sameFile does not tell: on Windows a file has to be opened for it.
func sameFile(_, _ os.FileInfo) bool { return true }

// openShared opens a file or a directory for reading and shares everything:
// writing, deletion and renaming, of which os.Open leaves out the last two. Its
// writer, which here is the plugin that sets up a pod's network, can then delete
// it, move it and, with POSIX semantics, rename another file over it. A rename
// without these (MoveFileEx) fails over any open file; see file.look.
func openShared(path string) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING,
		// Backup semantics are what opens a directory.
		windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}
