// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build windows

package statefile

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// TestWriterIsNotHindered moves and deletes a file that is being read, which a
// file opened by os.Open does not allow.
func TestWriterIsNotHindered(t *testing.T) {
	path := temp(t, "azure-vnet.json")
	write(t, path, list("a=10.0.0.1"))
	f, err := openShared(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Rename(path, path+"-old"))
	require.NoError(t, os.Remove(path+"-old"))
	write(t, path, list("b=10.0.0.2"))
}

// TestUnchangedFileIsRenamedOver has the writer's way of work: a lock, a while of
// its own, a temporary file, a rename. None of it fails, though each step is
// notified and causes a look.
func TestUnchangedFileIsRenamedOver(t *testing.T) {
	path := temp(t, "azure-vnet.json")
	write(t, path, list("p0=10.0.0.1"))
	f := &file{path: path, limit: maxFile, parse: func(_ string, b []byte) (answer, error) { return parseList(b) }}
	for i := range 20 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		now := info.ModTime().Add(tick + 1)
		changed, err := f.look(now, false)
		require.NoError(t, err)
		require.True(t, changed)

		staged := path + ".tmp"
		write(t, staged, list(fmt.Sprintf("p%d=10.0.0.1", i+1)))
		locked := lock(t, path) // would fail the look if it opened the file
		_, err = f.look(now.Add(time.Millisecond), false)
		require.NoError(t, err)
		require.NoError(t, windows.CloseHandle(locked))
		require.NoError(t, os.Rename(staged, path))
	}
}

// lock opens a file so that nobody else can.
func lock(t *testing.T, path string) windows.Handle {
	t.Helper()
	name, err := windows.UTF16PtrFromString(path)
	require.NoError(t, err)
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	require.NoError(t, err)
	return h
}

// TestLockedFile has a file that its writer lets nobody else open.
func TestLockedFile(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	s, _ := watch(t, path, formatList)
	s.waitNames("n/a")
	h := lock(t, path)
	text := list("b=10.0.0.2", "c=10.0.0.3")
	_, err := windows.Write(h, text)
	require.NoError(t, err)
	s.waitFailure("state file " + path + " (list): ")
	assert.Equal(t, []string{"n/a"}, s.names())
	require.NoError(t, windows.CloseHandle(h))
	s.refresh <- struct{}{}
	s.waitNames("n/b", "n/c")
}

func TestLongPathAndMissing(t *testing.T) {
	_, err := openShared(temp(t, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = openShared("a\x00b")
	assert.Error(t, err)
}
