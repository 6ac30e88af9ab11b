// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

func TestPodComesAndGoes(t *testing.T) {
	n := netnstest.NewNode(t)
	s := started(n)
	require.Empty(t, read(n, s))
	p := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	first := read(n, s)[key(p, "eth0")]
	require.Equal(t, addrs("10.1.0.2"), first.Addresses)

	n.IP("link del va")
	require.Empty(t, read(n, s))
	p.Veth("va", "eth0", "10.1.0.2/24")
	second := read(n, s)[key(p, "eth0")]
	require.NotEqual(t, first.ID, second.ID)

	inode := p.Inode()
	p.Delete()
	netnstest.Eventually(t, "the kernel has ended the namespace", func() bool { return len(read(n, s)) == 0 })
	require.Empty(t, s.inv.hosts)
	require.NotContains(t, s.inv.mounts.known, inode)
	for _, space := range s.inv.spaces {
		require.NotEqual(t, inode, space.inode)
	}
}

// Docker makes both ends in the node's namespace and moves one.
func TestPeerMovesToThePod(t *testing.T) {
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprintf("host end up %v", up), func(t *testing.T) {
			n := netnstest.NewNode(t)
			n.IP("link add va type veth peer name tmp0")
			if up {
				n.IP("link set va up")
			}
			s := started(n)
			require.Empty(t, read(n, s))
			p := n.Pod()
			n.IP("link set tmp0 netns " + p.NetNS)
			p.Inside("link set tmp0 name eth0")
			first := read(n, s)
			require.Contains(t, first, key(p, "eth0"))

			other := n.Pod()
			p.Inside("link set eth0 netns " + other.NetNS)
			second := read(n, s)
			require.Len(t, second, 1)
			require.NotEqual(t, first[key(p, "eth0")].ID, second[key(other, "eth0")].ID, "another pod's from now on")
		})
	}
}

// farNSID is an id that the kernel, which gives the lowest free one, never comes to.
const farNSID = 1_000_077

// setNSID gives the pod's namespace an id in the node's.
func setNSID(p *netnstest.Pod, id int32) { p.IP(fmt.Sprintf("netns set %s %d", p.NetNS, id)) }

func TestDuringARead(t *testing.T) {
	t.Run("a pod goes", func(t *testing.T) {
		n := netnstest.NewNode(t)
		stays := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
		n.Pod().Veth("vb", "eth0", "10.1.0.3/24")
		s := started(n)
		s.counted = func() { n.IP("link del vb") }
		got := read(n, s)
		require.Len(t, got, 1)
		require.Contains(t, got, key(stays, "eth0"))
	})
	t.Run("a namespace is deleted", func(t *testing.T) {
		n := netnstest.NewNode(t)
		stays := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
		goes := n.Pod().Veth("vb", "eth0", "10.1.0.3/24")
		s := started(n)
		s.counted = goes.Delete
		require.Contains(t, read(n, s), key(stays, "eth0"))
		s.counted = func() {}
		netnstest.Eventually(t, "the kernel has ended the namespace", func() bool { return len(read(n, s)) == 1 })
	})
	t.Run("a pod comes", func(t *testing.T) {
		n := netnstest.NewNode(t)
		s := started(n)
		var p *netnstest.Pod
		s.counted = func() { p = n.Pod().Veth("va", "eth0", "10.1.0.2/24") }
		require.Empty(t, read(n, s))
		s.counted = func() {}
		require.Contains(t, read(n, s), key(p, "eth0"))
	})
	t.Run("another pod gets the link's index", func(t *testing.T) {
		n := netnstest.NewNode(t)
		a, b := n.Pod(), n.Pod()
		n.IP("link add va index 1000 type veth peer name eth0 netns " + a.NetNS)
		a.Up("eth0", "10.1.0.2/24")
		s := started(n)
		id := read(n, s)[key(a, "eth0")].ID
		s.counted = func() {
			n.IP("link del va\nlink add va index 1000 type veth peer name eth0 netns " + b.NetNS)
			b.Up("eth0", "10.1.0.3/24")
		}
		require.Empty(t, read(n, s), "the counters were the old link's")
		s.counted = func() {}
		got := read(n, s)
		require.Len(t, got, 1)
		require.Equal(t, addrs("10.1.0.3"), got[key(b, "eth0")].Addresses)
		require.NotEqual(t, id, got[key(b, "eth0")].ID)
	})
	t.Run("another pod gets the namespace's id", func(t *testing.T) {
		n := netnstest.NewNode(t)
		a := n.Pod()
		setNSID(a, farNSID)
		a.Veth("va", "eth0", "10.1.0.2/24")
		s := started(n)
		id := read(n, s)[key(a, "eth0")].ID
		var b *netnstest.Pod
		s.counted = func() {
			a.Delete()
			netnstest.Eventually(t, "the id is free", func() bool {
				ids, err := s.conn.nsids()
				return err == nil && !slices.Contains(ids, farNSID)
			})
			b = n.Pod()
			setNSID(b, farNSID)
			b.Veth("vb", "eth0", "10.1.0.3/24")
		}
		require.NotContains(t, read(n, s), key(b, "eth0"))
		s.counted = func() {}
		var got map[string]sighting
		netnstest.Eventually(t, "the kernel has ended the namespace", func() bool { got = read(n, s); return len(got) == 1 })
		require.Equal(t, addrs("10.1.0.3"), got[key(b, "eth0")].Addresses)
		require.NotEqual(t, id, got[key(b, "eth0")].ID)
	})
	t.Run("an address is given to another pod", func(t *testing.T) {
		n := netnstest.NewNode(t)
		a := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
		b := n.Pod().Veth("vb", "eth0", "10.1.0.3/24")
		s := started(n)
		s.counted = func() {
			a.Inside("addr del 10.1.0.2/24 dev eth0")
			b.Inside("addr add 10.1.0.2/24 dev eth0")
		}
		got := read(n, s)
		require.Empty(t, got[key(a, "eth0")].Addresses)
		require.Equal(t, addrs("10.1.0.3", "10.1.0.2"), got[key(b, "eth0")].Addresses)
	})
	t.Run("changes do not stop", func(t *testing.T) {
		n := netnstest.NewNode(t)
		calm := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
		restless := n.Pod().Veth("vb", "eth0", "10.1.0.3/24")
		s := started(n)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					assert.NoError(t, restless.Within(func() error { return flap(i) }))
				}
			}
		}()
		for range 50 {
			seen, err := collect(s)
			if err != nil { // its own failure, and nobody else's
				require.ErrorContains(t, err, "endpoint vb: ")
				require.NotContains(t, err.Error(), "va")
			}
			found := false
			for _, e := range seen {
				found = found || e.NetNS == calm.Inode()
			}
			require.True(t, found)
		}
		close(stop)
		<-stopped
		require.Len(t, read(n, s), 2)
	})
}

// The same changes, met by a source that missed the news of them.
func TestLostNotifications(t *testing.T) {
	n := netnstest.NewNode(t)
	logs, observed := observer.New(zap.WarnLevel)
	s := started(n, func(s *Source) {
		s.buffer = 4096 // some two notifications
		s.cfg.TCP = true
		s.logger = zap.New(logs)
	})
	stays := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	goes := n.Pod().Veth("vb", "eth0", "10.1.0.3/24")
	reused, heir := n.Pod(), n.Pod()
	n.IP("link add vc index 1000 type veth peer name eth0 netns " + reused.NetNS)
	replaced := n.Pod()
	setNSID(replaced, farNSID)
	replaced.Veth("vd", "eth0", "10.1.0.6/24")
	dialNobody(replaced, 3)
	before := read(n, s)
	require.Len(t, before, 4)
	observed.TakeAll()

	// The reader's goroutine waits for the lock while the socket fills up.
	s.monitor.mu.Lock()
	n.IP("link del vb")
	stays.Inside("addr add 10.1.0.9/24 dev eth0")
	n.IP("link del vc\nlink add vc index 1000 type veth peer name eth0 netns " + heir.NetNS)
	heir.Up("eth0", "10.1.0.5/24")
	replaced.Delete()
	netnstest.Eventually(t, "the id is free", func() bool {
		ids, err := s.conn.nsids()
		return err == nil && !slices.Contains(ids, farNSID)
	})
	second := n.Pod()
	setNSID(second, farNSID)
	second.Veth("ve", "eth0", "10.1.0.7/24")
	dialNobody(second, 1)
	for i := range 20 {
		n.IP(fmt.Sprintf("link add x%d type veth peer name y%d\nlink del x%d", i, i, i))
	}
	s.monitor.mu.Unlock()

	var got map[string]sighting
	netnstest.Eventually(t, "the kernel has ended the namespace", func() bool { got = read(n, s); return len(got) == 3 })
	require.NotZero(t, observed.FilterMessageSnippet("lost").Len(), "nothing was lost: the test is none")
	require.Equal(t, before[key(stays, "eth0")].ID, got[key(stays, "eth0")].ID, "what stayed is the same")
	require.Equal(t, addrs("10.1.0.2", "10.1.0.9"), got[key(stays, "eth0")].Addresses)
	require.NotContains(t, got, key(goes, "eth0"))
	require.NotEqual(t, before[key(reused, "eth0")].ID, got[key(heir, "eth0")].ID)
	require.Equal(t, addrs("10.1.0.5"), got[key(heir, "eth0")].Addresses)
	require.Equal(t, addrs("10.1.0.7"), got[key(second, "eth0")].Addresses)
	require.EqualValues(t, 1, got[key(second, "eth0")].tcp.Events[endpoint.ActiveOpen], "another namespace's totals")
}

func TestManyPods(t *testing.T) {
	const pods = 300
	n := netnstest.NewNode(t)
	s := started(n)
	all := n.Pods(pods)
	all[17].Send("10.1.0.1", 3, 100)
	got := read(n, s)
	require.Len(t, got, pods)
	for i, p := range all {
		require.Equal(t, addrs(fmt.Sprintf("10.2.%d.%d", i/250, i%250+1)), got[key(p, "eth0")].Addresses)
	}
	for range 3 {
		again := read(n, s)
		require.Len(t, again, pods)
		for key, e := range got {
			require.Equal(t, e.ID, again[key].ID)
			require.GreaterOrEqual(t, again[key].Bytes[transmit], e.Bytes[transmit])
		}
	}
	for _, p := range all[:pods/2] {
		p.Delete()
	}
	netnstest.Eventually(t, "the kernel has ended the namespaces", func() bool { return len(read(n, s)) == pods/2 })
}
