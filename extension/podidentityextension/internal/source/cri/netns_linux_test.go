// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/sourcetest"
)

func TestNetNSInode(t *testing.T) {
	inode, err := netnsInode("/proc/self/ns/net")
	require.NoError(t, err)
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat("/proc/self/ns/net", &st))
	require.Equal(t, st.Ino, inode)

	plain := filepath.Join(t.TempDir(), "cni-1")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	_, err = netnsInode(plain)
	require.ErrorContains(t, err, plain+": no namespace is mounted there")
	_, err = netnsInode(plain + ".not")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestNetNSInAContainer has containerd's default path, in a container that has
// the node's namespaces at /run/netns only.
func TestNetNSInAContainer(t *testing.T) {
	want, err := netnsInode("/proc/self/ns/net")
	require.NoError(t, err)
	sourcetest.InContainer(t, func() {
		const path = "/var/run/netns/pod"
		inode, err := netnsInode(path)
		assert.NoError(t, err)
		assert.Equal(t, want, inode)

		w := watcher{hint: func() {}, logger: zap.NewNop()}
		defer w.close()
		w.watch(path)
		assert.Equal(t, []string{"/run/netns"}, w.files.WatchList())
	})
}

func TestSandboxsNetworkNamespace(t *testing.T) {
	f := newFakeRuntime(t)
	want, err := netnsInode("/proc/self/ns/net")
	require.NoError(t, err)
	f.netns["a"] = "/proc/self/ns/net"
	f.netns["b"] = filepath.Join(t.TempDir(), "gone")
	f.run("a", withIP("10.0.0.1"))
	f.run("b", withIP("10.0.0.2"))
	sink := observe(t, polling(f))
	require.Equal(t, want, sink.awaitPod(t, "a").NetNS)
	require.Zero(t, sink.awaitPod(t, "b").NetNS, "unknown, and the pod is known all the same")
	require.Empty(t, sink.failures)
}

// TestSickShim has a sandbox whose verbose status does not come: its pod is named
// without, and has its namespace when the shim is well again.
func TestSickShim(t *testing.T) {
	for name, strike := range map[string]func(*fakeRuntime){
		"hangs": func(f *fakeRuntime) { f.stuck["a"] = true },
		"ended": func(f *fakeRuntime) { f.shimless["a"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRuntime(t)
			want, err := netnsInode("/proc/self/ns/net")
			require.NoError(t, err)
			f.netns["a"] = "/proc/self/ns/net"
			f.run("a", withIP("10.0.0.1"))
			strike(f)
			cfg := hinting(f)
			cfg.Timeout = 2 * time.Second // the list's, too, which must not fail
			sink := observe(t, cfg)
			r := sink.awaitPod(t, "a")
			require.Equal(t, "pod-a", r.Identity.Name)
			require.Len(t, r.Addresses, 1)
			require.Zero(t, r.NetNS)
			sink.await(t, "the source is well", func() bool { return sink.synced > 0 })
			f.release("a")
			sink.await(t, "the namespace is known", func() bool { return sink.records["a"].NetNS == want })
			require.Empty(t, sink.failures)
		})
	}
}

func TestSandboxWithoutAShimIsNotAskedAtEachList(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	f.shimless["a"] = true
	sink := observe(t, polling(f))
	sink.awaitPod(t, "a")
	for range 5 {
		sink.awaitSync(t)
	}
	statuses, _ := f.calls("a")
	require.Equal(t, 2, statuses, "with the verbose information, and without")
}

func TestVerboseErrors(t *testing.T) {
	for _, code := range []codes.Code{codes.OK, codes.NotFound, codes.Unavailable, codes.Canceled, codes.Unimplemented} {
		require.False(t, tellsPlainly(status.Error(code, "")), code)
	}
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Unknown, codes.Internal, codes.ResourceExhausted} {
		require.True(t, tellsPlainly(status.Error(code, "")), code)
	}
}

// TestNamespaceFilesMakeItListAgain removes a namespace's file, as a runtime
// does when it stops a sandbox.
func TestNamespaceFilesMakeItListAgain(t *testing.T) {
	f := newFakeRuntime(t)
	dir := t.TempDir()
	f.netns["a"] = filepath.Join(dir, "cni-a")
	require.NoError(t, os.WriteFile(f.netns["a"], nil, 0o600))
	f.run("a", withIP("10.0.0.1"))
	sink := observe(t, hinting(f))
	sink.awaitPod(t, "a")
	sink.await(t, "the directory is watched", func() bool { return sink.synced > 0 })
	f.remove("a")
	require.NoError(t, os.Remove(f.netns["a"]))
	sink.awaitDead(t, "a")
	f.run("b", withIP("10.0.0.1"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cni-b"), nil, 0o600))
	sink.awaitPod(t, "b")
}
