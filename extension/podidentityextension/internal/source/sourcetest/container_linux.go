// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package sourcetest gives tests of sources a place to look from.
package sourcetest

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// InContainer runs f on a thread that sees what a collector in a container does:
// the node's /run/netns, where the thread's own network namespace is mounted as
// "pod", and a /var/run that is no link to /run. Other threads see nothing of it.
func InContainer(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts /run and /var as in a container, on one thread")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		for _, step := range []func() error{
			func() error { return unix.Unshare(unix.CLONE_NEWNS) },
			func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
			func() error { return unix.Mount("tmpfs", "/run", "tmpfs", 0, "") },
			func() error { return unix.Mount("tmpfs", "/var", "tmpfs", 0, "") },
			func() error { return os.MkdirAll("/var/run/secrets", 0o755) },
			func() error { return os.Mkdir("/run/netns", 0o755) },
			func() error { return os.WriteFile("/run/netns/pod", nil, 0o400) },
			func() error { return unix.Mount("/proc/thread-self/ns/net", "/run/netns/pod", "", unix.MS_BIND, "") },
		} {
			if err := step(); !assert.NoError(t, err, "make a container's mounts") {
				return
			}
		}
		f()
	}()
	<-done
}
