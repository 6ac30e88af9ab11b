// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestRuntimeInADeniedDirectory has one that a collector without rights cannot
// even see, and another one that would answer.
func TestRuntimeInADeniedDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: one thread gives up its rights to files")
	}
	f := newFakeRuntime(t)
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(f.path)), 0o755))
	require.NoError(t, os.Chmod(f.path, 0o666))
	hidden := filepath.Join(t.TempDir(), "hidden")
	require.NoError(t, os.Mkdir(hidden, 0o700))
	o := newObserver(lookAt(t, filepath.Join(hidden, "cri.sock"), f.path), zap.NewNop(), newRecorder())
	defer o.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread() // for good: the thread ends with its goroutine
		if assert.NoError(t, syscall.Setfsuid(65534)) {
			err := o.list(t.Context())
			assert.ErrorIs(t, err, fs.ErrPermission)
			assert.ErrorContains(t, err, deniedHint)
		}
	}()
	<-done
	require.Nil(t, o.runtime, "the other one is not taken")
}
