// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

// without runs f on a thread that lacks capabilities. Capabilities are each
// thread's own.
func without(f func() error, capabilities ...int) error {
	result := make(chan error)
	node, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(node)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Setns(node, unix.CLONE_NEWNET)
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err == nil {
			err = unix.Capget(&header, &data[0])
		}
		for _, c := range capabilities {
			data[c/32].Effective &^= 1 << (c % 32)
			data[c/32].Permitted &^= 1 << (c % 32)
		}
		if err == nil {
			err = unix.Capset(&header, &data[0])
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

func TestMissingCapability(t *testing.T) {
	for _, assigned := range []bool{false, true} {
		t.Run(fmt.Sprintf("namespace has an id %v", assigned), func(t *testing.T) {
			n := netnstest.NewNode(t)
			n.Pod().Veth("va", "eth0", "10.1.0.2/24")
			if assigned {
				started(n)
			}
			before := openFiles(t)
			err := without(func() error {
				s := New(Config{}, zap.NewNop())
				return s.Start(context.Background())
			}, unix.CAP_NET_ADMIN)
			require.ErrorContains(t, err, "CAP_NET_ADMIN")
			require.ErrorContains(t, err, "AmbientCapabilities")
			require.Equal(t, before, openFiles(t), "a failed Start leaves nothing open")
		})
	}
	t.Run("TCP", func(t *testing.T) {
		netnstest.NewNode(t)
		err := without(func() error {
			s := New(Config{TCP: true}, zap.NewNop())
			return s.Start(context.Background())
		}, unix.CAP_SYS_ADMIN)
		require.ErrorContains(t, err, "CAP_SYS_ADMIN")
		require.ErrorContains(t, err, "netlink.tcp.enabled")
	})
}

// CAP_NET_ADMIN alone is enough for the right answer, at a price.
func TestMissingBroadcastCapability(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	logs, observed := observer.New(zap.WarnLevel)
	s := New(Config{}, zap.New(logs))
	require.NoError(t, without(func() error { return s.Start(context.Background()) }, unix.CAP_NET_BROADCAST))
	defer s.Close()
	require.Len(t, observed.FilterMessageSnippet("CAP_NET_BROADCAST").All(), 1)

	require.Equal(t, addrs("10.1.0.2"), read(n, s)[key(p, "eth0")].Addresses)
	p.Inside("addr add 10.1.0.3/24 dev eth0")
	require.Equal(t, addrs("10.1.0.2", "10.1.0.3"), read(n, s)[key(p, "eth0")].Addresses)
	require.Len(t, observed.All(), 1, "said once")
}

func TestNothingIsLeftOpen(t *testing.T) {
	n := netnstest.NewNode(t)
	n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	s := New(Config{TCP: true}, zap.NewNop())
	for i := range 20 {
		before := openFiles(t)
		require.NoError(t, s.Start(context.Background()))
		require.Len(t, read(n, s), 1)
		require.NoError(t, s.Close())
		if i > 0 { // the first time opens the runtime's poller
			require.Equal(t, before, openFiles(t))
		}
	}
}

func openFiles(tb testing.TB) int {
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(tb, err)
	return len(files)
}

// The node can be a namespace itself, connected by a veth to the machine's,
// which is no pod. That is seen by process 1, so the test runs itself again as
// process 1 of a namespace of its own.
func TestNodeInANamespace(t *testing.T) {
	const inside = "HNSSTATS_TEST_PROCESS_1"
	if os.Getenv(inside) == "" {
		if os.Geteuid() != 0 {
			t.Skip("needs root, to make namespaces")
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestNodeInANamespace$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET}
		out, err := cmd.CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
		require.Contains(t, string(out), "the uplink is no pod")
		return
	}
	n := netnstest.NewNode(t)
	n.IP("link add uplink type veth peer name tohost\naddr add 10.9.0.2/24 dev uplink\nlink set uplink up")
	n.IP("link set tohost netns 1")
	addressed := make(chan error)
	go func() { // on a thread that is where process 1 is
		addressed <- exec.Command("ip", "addr", "add", "10.9.0.1/24", "dev", "tohost").Run()
	}()
	require.NoError(t, <-addressed) // or it would be left out for having none
	p := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	s := started(n)
	got := read(n, s)
	require.Contains(t, got, key(p, "eth0"))
	require.Len(t, got, 1)
	require.Len(t, s.inv.hosts, 2)
	fmt.Println("the uplink is no pod")
}
