// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package statefile

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/sourcetest"
)

// asNobody runs f as a user without rights. Only the calling thread changes,
// and it ends with its goroutine.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // never unlocked: the thread is thrown away
			// The kernel takes the rights over files from a thread whose filesystem
			// user is not root (capabilities(7)).
			if err := unix.Setfsuid(65534); err != nil {
				t.Errorf("setfsuid: %v", err)
				return
			}
		}
		f()
	}()
	<-done
}

func TestUnreadable(t *testing.T) {
	for _, tt := range []struct{ name, format string }{{"file", formatList}, {"directory", formatCNIResults}} {
		t.Run(tt.name, func(t *testing.T) {
			path := temp(t, "state")
			if tt.format == formatList {
				write(t, path, list("a=10.0.0.1"))
			} else {
				require.NoError(t, os.Mkdir(path, 0o700))
				copyCNIResult(t, path, bedID)
			}
			r := newReader([]string{path}, formats[tt.format], zap.NewNop())
			defer r.watches.close()
			s := newSink(t)
			rep := newReport(s, zap.NewNop())
			now := time.Now()
			rep.take(r.look(now, false), now, true)
			good := s.snapshot()
			require.Len(t, good, 1)

			require.NoError(t, os.Chmod(path, 0))
			parents(t, path)
			var l look
			asNobody(t, func() { l = r.look(now, false) })
			require.ErrorIs(t, l.err, fs.ErrPermission)
			rep.take(l, now.Add(settle), true)
			assert.Equal(t, good, s.snapshot())
			require.Len(t, s.failed, 1)
			assert.EqualError(t, s.failed[0], fmt.Sprintf("state file %s (%s): permission denied (run the collector as root or with "+
				"CAP_DAC_READ_SEARCH, on Windows as LocalSystem); its last good answer is kept", path, tt.format))
			assert.ErrorIs(t, s.failed[0], fs.ErrPermission)
		})
	}
}

// TestUnreadableBelow has one directory of several that cannot be read: the
// pods in it stay as they were, the others go on.
func TestUnreadableBelow(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, network := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, network), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, network, "10.0.0.1"), []byte(network), 0o644))
	}
	r := newReader([]string{dir}, formats[formatHostLocal], zap.NewNop())
	defer r.watches.close()
	require.Len(t, r.look(time.Now(), false).pods, 2)
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0))
	require.NoError(t, os.Remove(filepath.Join(dir, "b", "10.0.0.1")))
	var l look
	parents(t, dir)
	asNobody(t, func() { l = r.look(time.Now(), false) })
	require.NoError(t, l.err)
	require.Len(t, l.pods, 1)
	assert.Equal(t, "a", l.pods[0].Sandbox)
	require.Len(t, l.broken, 1)
	assert.EqualError(t, l.broken[0], "a: permission denied")
}

// parents opens the directories above a test's own, which are its user's only.
func parents(t *testing.T, dir string) {
	t.Helper()
	for d := filepath.Dir(dir); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
}

func TestNamedPipeIsNotWaitedFor(t *testing.T) {
	path := temp(t, "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	r := newReader([]string{path}, formats[formatList], zap.NewNop())
	defer r.watches.close()
	assert.ErrorContains(t, r.look(time.Now(), false).err, "is no regular file but p")
	_, _, err := readFile(path, maxFile)
	assert.ErrorContains(t, err, "is no regular file but p")
}

func TestNetNSInode(t *testing.T) {
	var st unix.Stat_t
	require.NoError(t, unix.Stat("/proc/self/ns/net", &st))
	inode, err := netNSInode("/proc/self/ns/net")
	require.NoError(t, err)
	assert.Equal(t, st.Ino, inode)

	left := temp(t, "cni-1")
	write(t, left, nil)
	_, err = netNSInode(left)
	assert.ErrorIs(t, err, errNotMounted, "the file that is left when a namespace is unmounted")
	_, err = netNSInode(left + "2")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestNetNSInAContainer(t *testing.T) {
	want, err := netNSInode("/proc/self/ns/net")
	require.NoError(t, err)
	sourcetest.InContainer(t, func() {
		r := newReport(newSink(t), zap.NewNop())
		assert.Equal(t, want, r.inode("/var/run/netns/pod"))
		assert.Equal(t, goneNetNS, r.inode("/var/run/netns/gone"))
		assert.Zero(t, r.inode("/var/run/ns/pod"), "in a directory that we don't see")
	})
}

// TestNamespaceOfALeaf has libcni's cache with a real namespace, reached by a
// symbolic link in place of a mount. The namespace's end ends a pod whose file
// was left behind, and only one that it is known of.
func TestNamespaceOfALeaf(t *testing.T) {
	dir, mounts := t.TempDir(), t.TempDir()
	result := func(id, netns string) {
		write(t, filepath.Join(dir, "n-"+id+"-eth0"), fmt.Appendf(nil,
			`{"kind":"cniCacheV1","containerId":%q,"ifName":"eth0","netns":%q,"cniArgs":[["K8S_POD_NAME",%q],["K8S_POD_NAMESPACE","n"]],
			"result":{"ips":[{"address":"10.0.0.1/24"}]}}`, id, netns, id))
	}
	mount := filepath.Join(mounts, "cni-1")
	require.NoError(t, os.Symlink("/proc/self/ns/net", mount))
	result("a", mount)
	result("b", filepath.Join(mounts, "elsewhere", "cni-2")) // in a directory that we don't see
	s, _ := watch(t, dir, formatCNIResults)
	s.waitNames("n/a", "n/b")
	inode, err := netNSInode("/proc/self/ns/net")
	require.NoError(t, err)
	assert.Equal(t, inode, s.snapshot()["a"].NetNS)
	assert.Zero(t, s.snapshot()["b"].NetNS)

	require.NoError(t, os.Remove(mount))
	s.refresh <- struct{}{}
	s.waitNames("n/b")
	require.NoError(t, os.Symlink("/proc/self/ns/net", mount))
	s.refresh <- struct{}{}
	s.waitNames("n/a", "n/b")
}

// TestConfigMap has a file replaced as the kubelet replaces a mounted one: by a
// symbolic link to its directory.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	for version, pods := range map[string][]byte{"..1": list("a=10.0.0.1"), "..2": list("b=10.0.0.2")} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "pods.json"), pods)
	}
	require.NoError(t, os.Symlink("..1", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/pods.json", filepath.Join(dir, "pods.json")))
	s, _ := watch(t, filepath.Join(dir, "pods.json"), formatList)
	s.waitNames("n/a")
	require.NoError(t, os.Symlink("..2", filepath.Join(dir, "..new")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	s.waitNames("n/b")
}

// TestQueueOverflow overflows the kernel's queue for a notifier that nobody
// listens to, and then starts a source with it.
func TestQueueOverflow(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	var queue int
	_, err = fmt.Sscan(string(b), &queue)
	require.NoError(t, err)
	path := temp(t, "pods.json")
	notifier, err := fsnotify.NewWatcher()
	require.NoError(t, err)
	require.NoError(t, notifier.Add(filepath.Dir(path)))
	for range (queue + 4000) / 2 { // two events each, and some are under way
		write(t, path+".lock", nil)
		require.NoError(t, os.Remove(path+".lock"))
	}
	write(t, path, list("a=10.0.0.1"))

	core, logs := observer.New(zapcore.DebugLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	src, err := New(&Config{Path: path, Format: formatList, PollInterval: never}, set)
	require.NoError(t, err)
	w := &src.(*stateFile).reader.watches
	w.notifier, w.gathered = notifier, make(chan struct{})
	s := newSink(t)
	require.NoError(t, src.Start(t.Context(), s))
	go func() { defer close(w.gathered); w.gather(notifier.Events, notifier.Errors) }()
	defer func() { assert.NoError(t, src.Shutdown(context.Background())) }()
	s.waitNames("n/a")
	require.Eventually(t, func() bool {
		return logs.FilterMessage("notifications of changes were lost; looking at all of the state file again").Len() == 1
	}, 20*time.Second, time.Millisecond)
	replace(t, path, list("b=10.0.0.2"))
	s.waitNames("n/b")
}

// TestAnotherFileAsLargeAndOld has a file moved into the place of another from
// which only its inode tells it.
func TestAnotherFileAsLargeAndOld(t *testing.T) {
	path := temp(t, "pods.json")
	stamp := time.Now().Add(-time.Hour)
	for name, pods := range map[string][]byte{path: list("a=10.0.0.1"), path + ".new": list("b=10.0.0.1")} {
		write(t, name, pods)
		require.NoError(t, os.Chtimes(name, stamp, stamp))
	}
	s, _ := watch(t, path, formatList)
	s.waitNames("n/a")
	require.NoError(t, os.Rename(path+".new", path))
	s.waitNames("n/b")
}
