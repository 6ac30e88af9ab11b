// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestPodComesAndGoes(t *testing.T) {
	n := newNode(t)
	s := n.started()
	require.Empty(t, n.read(s))
	p := n.pod().veth("va", "eth0", "10.1.0.2/24")
	first := n.read(s)[p.key("eth0")]
	require.Equal(t, addrs("10.1.0.2"), first.Addresses)

	n.ip("link del va")
	require.Empty(t, n.read(s))
	p.veth("va", "eth0", "10.1.0.2/24")
	second := n.read(s)[p.key("eth0")]
	require.NotEqual(t, first.ID, second.ID)

	inode := p.inode()
	p.delete()
	eventually(t, "the kernel has ended the namespace", func() bool { return len(n.read(s)) == 0 })
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
			n := newNode(t)
			n.ip("link add va type veth peer name tmp0")
			if up {
				n.ip("link set va up")
			}
			s := n.started()
			require.Empty(t, n.read(s))
			p := n.pod()
			n.ip("link set tmp0 netns " + p.name)
			p.inside("link set tmp0 name eth0")
			first := n.read(s)
			require.Contains(t, first, p.key("eth0"))

			other := n.pod()
			p.inside("link set eth0 netns " + other.name)
			second := n.read(s)
			require.Len(t, second, 1)
			require.NotEqual(t, first[p.key("eth0")].ID, second[other.key("eth0")].ID, "another pod's from now on")
		})
	}
}

func TestDuringARead(t *testing.T) {
	t.Run("a pod goes", func(t *testing.T) {
		n := newNode(t)
		stays := n.pod().veth("va", "eth0", "10.1.0.2/24")
		n.pod().veth("vb", "eth0", "10.1.0.3/24")
		s := n.started()
		s.counted = func() { n.ip("link del vb") }
		got := n.read(s)
		require.Len(t, got, 1)
		require.Contains(t, got, stays.key("eth0"))
	})
	t.Run("a namespace is deleted", func(t *testing.T) {
		n := newNode(t)
		stays := n.pod().veth("va", "eth0", "10.1.0.2/24")
		goes := n.pod().veth("vb", "eth0", "10.1.0.3/24")
		s := n.started()
		s.counted = goes.delete
		require.Contains(t, n.read(s), stays.key("eth0"))
		s.counted = func() {}
		eventually(t, "the kernel has ended the namespace", func() bool { return len(n.read(s)) == 1 })
	})
	t.Run("a pod comes", func(t *testing.T) {
		n := newNode(t)
		s := n.started()
		var p *testPod
		s.counted = func() { p = n.pod().veth("va", "eth0", "10.1.0.2/24") }
		require.Empty(t, n.read(s))
		s.counted = func() {}
		require.Contains(t, n.read(s), p.key("eth0"))
	})
	t.Run("another pod gets the link's index", func(t *testing.T) {
		n := newNode(t)
		a, b := n.pod(), n.pod()
		n.ip("link add va index 1000 type veth peer name eth0 netns " + a.name)
		a.up("eth0", "10.1.0.2/24")
		s := n.started()
		id := n.read(s)[a.key("eth0")].ID
		s.counted = func() {
			n.ip("link del va\nlink add va index 1000 type veth peer name eth0 netns " + b.name)
			b.up("eth0", "10.1.0.3/24")
		}
		require.Empty(t, n.read(s), "the counters were the old link's")
		s.counted = func() {}
		got := n.read(s)
		require.Len(t, got, 1)
		require.Equal(t, addrs("10.1.0.3"), got[b.key("eth0")].Addresses)
		require.NotEqual(t, id, got[b.key("eth0")].ID)
	})
	t.Run("another pod gets the namespace's id", func(t *testing.T) {
		n := newNode(t)
		a := n.pod()
		n.ip("netns set " + a.name + " 77")
		a.veth("va", "eth0", "10.1.0.2/24")
		s := n.started()
		id := n.read(s)[a.key("eth0")].ID
		var b *testPod
		s.counted = func() {
			a.delete()
			eventually(t, "the id is free", func() bool {
				ids, err := s.conn.nsids()
				return err == nil && !strings.Contains(fmt.Sprint(ids), "77")
			})
			b = n.pod()
			n.ip("netns set " + b.name + " 77")
			b.veth("vb", "eth0", "10.1.0.3/24")
		}
		require.NotContains(t, n.read(s), b.key("eth0"))
		s.counted = func() {}
		var got map[string]sighting
		eventually(t, "the kernel has ended the namespace", func() bool { got = n.read(s); return len(got) == 1 })
		require.Equal(t, addrs("10.1.0.3"), got[b.key("eth0")].Addresses)
		require.NotEqual(t, id, got[b.key("eth0")].ID)
	})
	t.Run("an address is given to another pod", func(t *testing.T) {
		n := newNode(t)
		a := n.pod().veth("va", "eth0", "10.1.0.2/24")
		b := n.pod().veth("vb", "eth0", "10.1.0.3/24")
		s := n.started()
		s.counted = func() {
			a.inside("addr del 10.1.0.2/24 dev eth0")
			b.inside("addr add 10.1.0.2/24 dev eth0")
		}
		got := n.read(s)
		require.Empty(t, got[a.key("eth0")].Addresses)
		require.Equal(t, addrs("10.1.0.3", "10.1.0.2"), got[b.key("eth0")].Addresses)
	})
	t.Run("changes do not stop", func(t *testing.T) {
		n := newNode(t)
		calm := n.pod().veth("va", "eth0", "10.1.0.2/24")
		restless := n.pod().veth("vb", "eth0", "10.1.0.3/24")
		s := n.started()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					assert.NoError(t, restless.within(func() error { return flap(i) }))
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
				found = found || e.NetNS == calm.inode()
			}
			require.True(t, found)
		}
		close(stop)
		<-stopped
		require.Len(t, n.read(s), 2)
	})
}

// The same changes, met by a source that missed the news of them.
func TestLostNotifications(t *testing.T) {
	n := newNode(t)
	logs, observed := observer.New(zap.WarnLevel)
	s := n.started(func(s *Source) {
		s.buffer = 4096 // some two notifications
		s.logger = zap.New(logs)
	})
	stays := n.pod().veth("va", "eth0", "10.1.0.2/24")
	goes := n.pod().veth("vb", "eth0", "10.1.0.3/24")
	reused, heir := n.pod(), n.pod()
	n.ip("link add vc index 1000 type veth peer name eth0 netns " + reused.name)
	replaced := n.pod()
	n.ip("netns set " + replaced.name + " 77")
	replaced.veth("vd", "eth0", "10.1.0.6/24")
	before := n.read(s)
	require.Len(t, before, 4)
	observed.TakeAll()

	// The reader's goroutine waits for the lock while the socket fills up.
	s.monitor.mu.Lock()
	n.ip("link del vb")
	stays.inside("addr add 10.1.0.9/24 dev eth0")
	n.ip("link del vc\nlink add vc index 1000 type veth peer name eth0 netns " + heir.name)
	heir.up("eth0", "10.1.0.5/24")
	replaced.delete()
	eventually(t, "the id is free", func() bool {
		ids, err := s.conn.nsids()
		return err == nil && !strings.Contains(fmt.Sprint(ids), "77")
	})
	second := n.pod()
	n.ip("netns set " + second.name + " 77")
	second.veth("ve", "eth0", "10.1.0.7/24")
	for i := range 20 {
		n.ip(fmt.Sprintf("link add x%d type veth peer name y%d\nlink del x%d", i, i, i))
	}
	s.monitor.mu.Unlock()

	var got map[string]sighting
	eventually(t, "the kernel has ended the namespace", func() bool { got = n.read(s); return len(got) == 3 })
	require.NotZero(t, observed.FilterMessageSnippet("lost").Len(), "nothing was lost: the test is none")
	require.Equal(t, before[stays.key("eth0")].ID, got[stays.key("eth0")].ID, "what stayed is the same")
	require.Equal(t, addrs("10.1.0.2", "10.1.0.9"), got[stays.key("eth0")].Addresses)
	require.NotContains(t, got, goes.key("eth0"))
	require.NotEqual(t, before[reused.key("eth0")].ID, got[heir.key("eth0")].ID)
	require.Equal(t, addrs("10.1.0.5"), got[heir.key("eth0")].Addresses)
	require.Equal(t, addrs("10.1.0.7"), got[second.key("eth0")].Addresses)
}

func TestManyPods(t *testing.T) {
	const pods = 300
	n := newNode(t)
	s := n.started()
	all := manyPods(n, pods)
	all[17].send("10.1.0.1", 3, 100)
	got := n.read(s)
	require.Len(t, got, pods)
	for i, p := range all {
		require.Equal(t, addrs(fmt.Sprintf("10.2.%d.%d", i/250, i%250+1)), got[p.key("eth0")].Addresses)
	}
	for range 3 {
		again := n.read(s)
		require.Len(t, again, pods)
		for key, e := range got {
			require.Equal(t, e.ID, again[key].ID)
			require.GreaterOrEqual(t, again[key].Bytes[transmit], e.Bytes[transmit])
		}
	}
	for _, p := range all[:pods/2] {
		p.delete()
	}
	eventually(t, "the kernel has ended the namespaces", func() bool { return len(n.read(s)) == pods/2 })
}
