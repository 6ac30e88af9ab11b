// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build windows

package statefile

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// TestWriterIsNotHindered renames over and deletes a file that is being read.
func TestWriterIsNotHindered(t *testing.T) {
	path := temp(t, "azure-vnet.json")
	write(t, path, list("a=10.0.0.1"))
	f, err := openShared(path)
	require.NoError(t, err)
	defer f.Close()
	replace(t, path, list("b=10.0.0.2"))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, list("b=10.0.0.2"), b)

	g, err := openShared(path)
	require.NoError(t, err)
	defer g.Close()
	assert.NoError(t, os.Remove(path))
}

// TestLockedFile has a file that its writer lets nobody else open.
func TestLockedFile(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	s, _ := watch(t, path, formatList)
	s.waitNames("n/a")
	name, err := windows.UTF16PtrFromString(path)
	require.NoError(t, err)
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	require.NoError(t, err)
	text := list("b=10.0.0.2", "c=10.0.0.3")
	_, err = windows.Write(h, text)
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
