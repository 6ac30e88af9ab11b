// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

func TestTCP(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod()
	p.Veth("va", "eth0", "10.1.0.2/24").Veth("vb", "net1", "10.2.0.2/24")
	quiet := n.Pod().Veth("vc", "eth0", "10.3.0.2/24")
	p.Inside("link set lo up")
	s := started(n, func(s *Source) { s.cfg.TCP = true })
	require.NoError(t, p.Within(func() error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer listener.Close()
		for range 7 {
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return err
			}
			defer c.Close()
		}
		_, err = net.Dial("tcp", "127.0.0.1:1")
		require.Error(t, err)
		return nil
	}))

	got := read(n, s)
	require.NotNil(t, got[key(p, "eth0")].tcp)
	require.Nil(t, got[key(p, "net1")].tcp, "the namespace's totals are counted once")
	has := [endpoint.NumTCPEvents]bool{endpoint.ActiveOpen: true, endpoint.PassiveOpen: true, endpoint.AttemptFailed: true, endpoint.Reset: true}
	require.Equal(t, has, got[key(p, "eth0")].tcp.HasEvent)
	require.Nil(t, got[key(p, "eth0")].tcp.Packets)
	events := read(n, s)[key(p, "eth0")].tcp.Events
	require.EqualValues(t, 8, events[endpoint.ActiveOpen])
	require.EqualValues(t, 7, events[endpoint.PassiveOpen])
	require.EqualValues(t, 1, events[endpoint.AttemptFailed])
	require.Zero(t, read(n, s)[key(quiet, "eth0")].tcp.Events)

	// Whoever looks into a namespace must not keep it alive.
	p.Delete()
	netnstest.Eventually(t, "the kernel has ended the namespace", func() bool { return len(read(n, s)) == 1 })
}

// The totals go on at another port when theirs goes, without what was told of
// them: the other one's start says nothing of that.
func TestTCPOfAPodThatLosesAnInterface(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod()
	connect := func(host, inPod string, index int) {
		n.IP(fmt.Sprintf("link add %s type veth peer name %s index %d netns %s", host, inPod, index, p.NetNS))
	}
	connect("va", "eth0", 1000)
	s := started(n, func(s *Source) { s.cfg.TCP = true })
	opens := func(inPod string) uint64 {
		t.Helper()
		got := read(n, s)
		for k, e := range got {
			require.Equal(t, k == key(p, inPod), e.tcp != nil, k)
		}
		return got[key(p, inPod)].tcp.Events[endpoint.ActiveOpen]
	}
	dialNobody(p, 5)
	require.EqualValues(t, 5, opens("eth0"))
	connect("vb", "net1", 2000)
	dialNobody(p, 2)
	require.EqualValues(t, 7, opens("eth0"))

	n.IP("link del va")
	dialNobody(p, 3)
	require.EqualValues(t, 3, opens("net1"))
	connect("va", "eth0", 1000)
	dialNobody(p, 1)
	require.EqualValues(t, 4, opens("net1"), "they stay where they are")

	n.IP("link del vb\nlink del va")
	dialNobody(p, 2)
	require.Empty(t, read(n, s))
	connect("va", "eth0", 1000)
	require.EqualValues(t, 2, opens("eth0"))
}

// A namespace that is mounted twice, as a runtime and a CNI plugin may do, is found
// at the other place when the one is unmounted.
func TestTCPOfANamespaceThatIsMountedTwice(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	inode, eth0 := p.Inode(), key(p, "eth0")
	other := filepath.Join(t.TempDir(), "netns")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, unix.Mount(p.Path(), other, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
	logs, observed := observer.New(zap.WarnLevel)
	s := started(n, func(s *Source) { s.cfg.TCP, s.logger = true, zap.New(logs) })
	require.NotNil(t, read(n, s)[eth0].tcp)

	for _, space := range s.inv.spaces {
		if space.inode == inode {
			require.NoError(t, unix.Unmount(space.path, unix.MNT_DETACH))
			require.NoError(t, os.Remove(space.path))
		}
	}
	require.Contains(t, read(n, s), eth0)
	for range 2 {
		got := read(n, s)
		require.NotNil(t, got[eth0].tcp)
		require.Equal(t, inode, got[eth0].NetNS)
	}
	require.Equal(t, 1, observed.Len())
}

// A failure to open the namespace's only mount passes without a change of mounts.
func TestTCPWhileNoFileCanBeOpened(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	s := started(n, func(s *Source) { s.cfg.TCP = true })
	require.NotNil(t, read(n, s)[key(p, "eth0")].tcp)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	seen, err := collect(s)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, err)
	require.Len(t, seen, 1)
	require.Nil(t, seen[0].tcp)
	require.NotNil(t, read(n, s)[key(p, "eth0")].tcp)
}

// dialNobody has the pod open connections that are refused.
func dialNobody(p *netnstest.Pod, times int) {
	p.Helper()
	p.Inside("link set lo up")
	require.NoError(p, p.Within(func() error {
		for range times {
			if _, err := net.Dial("tcp", "127.0.0.1:1"); !errors.Is(err, unix.ECONNREFUSED) {
				return fmt.Errorf("connect to nobody: %w", err)
			}
		}
		return nil
	}))
}

func TestParseSNMP(t *testing.T) {
	b, err := os.ReadFile("testdata/snmp")
	require.NoError(t, err)
	totals, err := parseSNMP(b)
	require.NoError(t, err)
	require.Equal(t, tcpTotals{activeOpens: 1212, passiveOpens: 231, attemptFails: 759, estabResets: 211}, totals)

	for name, text := range map[string]string{
		"empty":         "",
		"names only":    "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets\n",
		"no number":     "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets\nTcp: 1 2 3 x\n",
		"too few":       "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets\nTcp: 1 2 3\n",
		"a total lacks": "Tcp: ActiveOpens PassiveOpens AttemptFails\nTcp: 1 2 3\n",
	} {
		_, err := parseSNMP([]byte(text))
		require.Error(t, err, name)
	}
}

func FuzzParseSNMP(f *testing.F) {
	b, err := os.ReadFile("testdata/snmp")
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		totals, err := parseSNMP(b)
		if err != nil {
			require.Zero(t, totals)
		}
	})
}
