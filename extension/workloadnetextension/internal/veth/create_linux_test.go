// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
)

func addrs(s ...string) []netip.Addr {
	var as []netip.Addr
	for _, a := range s {
		as = append(as, netip.MustParseAddr(a))
	}
	return as
}

func open(t *testing.T, pod *nettest.Pod) *NetNS {
	ns, err := OpenNetNS(pod.Path())
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// create makes a link, and deletes it when the test ends.
func create(t *testing.T, pod *nettest.Pod, id string, addresses ...string) Link {
	c, err := Network{}.Create(context.Background(), open(t, pod), Spec{id, "eth0", addrs(addresses...)})
	require.NoError(t, err)
	defer c.Close()
	t.Cleanup(func() { assert.NoError(t, Network{}.Delete(c.Link().HostIndex)) })
	return c.Link()
}

// attach makes a link and marks it.
func attach(t *testing.T, pod *nettest.Pod, id string, addresses ...string) Link {
	link := create(t, pod, id, addresses...)
	require.NoError(t, Network{}.Mark(link.HostIndex, id))
	return link
}

func TestCreate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		addresses []string
		pod, node []string // what the state has beside lo's, and beside the links
	}{
		{
			"both families", []string{"10.88.0.2", "fd00:88::2"},
			[]string{
				"addr 10.88.0.2/32 scope=0 dev eth0", "addr fd00:88::2/128 scope=0 dev eth0",
				"route 0.0.0.0/0 table 254 via 169.254.77.1 dev eth0", "route 169.254.77.1/32 table 254 via <nil> dev eth0",
				"route ::/0 table 254 via fe80::1 dev eth0", "route fe80::1/128 table 254 via <nil> dev eth0",
			},
			[]string{
				"addr 169.254.77.1/32 scope=254 dev wn", "addr fe80::1/128 scope=253 dev wn",
				"route 10.88.0.2/32 table 254 via <nil> dev wn", "route fd00:88::2/128 table 254 via <nil> dev wn",
			},
		},
		{
			"IPv4 alone", []string{"10.88.0.2"},
			[]string{
				"addr 10.88.0.2/32 scope=0 dev eth0",
				"route 0.0.0.0/0 table 254 via 169.254.77.1 dev eth0", "route 169.254.77.1/32 table 254 via <nil> dev eth0",
			},
			[]string{"addr 169.254.77.1/32 scope=254 dev wn", "route 10.88.0.2/32 table 254 via <nil> dev wn"},
		},
		{
			"IPv6 alone", []string{"fd00:88::2"},
			[]string{
				"addr fd00:88::2/128 scope=0 dev eth0",
				"route ::/0 table 254 via fe80::1 dev eth0", "route fe80::1/128 table 254 via <nil> dev eth0",
			},
			[]string{"addr fe80::1/128 scope=253 dev wn", "route fd00:88::2/128 table 254 via <nil> dev wn"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := nettest.NewPod(t)
			link := attach(t, pod, "sandbox-1", tt.addresses...)

			state := pod.State()
			for _, want := range tt.pod {
				assert.Contains(t, state, want)
			}
			assert.Len(t, nettest.Lines(state, "link eth0 veth", "up|"), 1)
			assert.Len(t, nettest.Lines(state, "link lo", "up|"), 1)
			assert.Len(t, nettest.Lines(state, "addr", "scope=0 dev eth0"), len(tt.addresses))

			node := nettest.NodeState(t)
			for _, want := range tt.node {
				assert.Len(t, nettest.Lines(node, want), 1, want)
			}
			assert.Len(t, nettest.Lines(node, "addr", "dev wn"), len(tt.addresses), "no address but the gateways")
			const set = "3" // NET_ADDR_SET of linux/netdevice.h: udev leaves it alone
			assert.Equal(t, set, nettest.NodeAddrAssignType(t, link.HostName))
			assert.Equal(t, set, pod.AddrAssignType("eth0"))
			assert.Len(t, nettest.Lines(node, "link "+link.HostName+" veth", `alias="workloadnet sandbox-1" group=0x776e6574`, "up|"), 1)

			pod.Do(func() {
				l, err := netlink.LinkByName("eth0")
				if assert.NoError(t, err) {
					assert.Equal(t, l.Attrs().HardwareAddr, link.MAC)
				}
			})
		})
	}
}

// The first packet gets through: nothing waits for duplicate address detection,
// and the node's packets carry the node's address, not the gateway's.
func TestTraffic(t *testing.T) {
	nettest.NeedNode(t)
	_, err := EnableForwarding([]netip.Prefix{netip.MustParsePrefix("10.88.0.0/24"), netip.MustParsePrefix("fd00::/64")})
	require.NoError(t, err)
	a, b := nettest.NewPod(t), nettest.NewPod(t)
	attach(t, a, "sandbox-a", "10.88.0.2", "fd00:88::2")
	attach(t, b, "sandbox-b", "10.88.0.3", "fd00:88::3")

	node := func(f func()) { f() }
	for _, tt := range []struct {
		name       string
		from, to   func(func())
		addr, want string // dialled, and the source that the other end sees
	}{
		{"pod to node, IPv4", a.Do, node, "192.0.2.1", "10.88.0.2"},
		{"pod to node, IPv6", a.Do, node, "2001:db8::1", "fd00:88::2"},
		{"pod to its gateway, IPv4", a.Do, node, "169.254.77.1", "10.88.0.2"},
		{"node to pod, IPv4", node, a.Do, "10.88.0.2", "192.0.2.1"},
		{"node to pod, IPv6", node, a.Do, "fd00:88::2", "2001:db8::1"},
		{"pod to pod, IPv4", a.Do, b.Do, "10.88.0.3", "10.88.0.2"},
		{"pod to pod, IPv6", a.Do, b.Do, "fd00:88::3", "fd00:88::2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var listener net.Listener
			var err error
			tt.to(func() { listener, err = net.Listen("tcp", "[::]:0") })
			require.NoError(t, err)
			defer listener.Close()
			go func() { // answers with the address it sees
				if conn, err := listener.Accept(); err == nil {
					_, _ = io.WriteString(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().String())
					conn.Close()
				}
			}()
			_, port, err := net.SplitHostPort(listener.Addr().String())
			require.NoError(t, err)
			var conn net.Conn
			tt.from(func() { conn, err = net.DialTimeout("tcp", net.JoinHostPort(tt.addr, port), 900*time.Millisecond) })
			require.NoError(t, err)
			defer conn.Close()
			seen, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(seen))
		})
	}
}

// Whichever step fails, the node and the namespace are as they were.
func TestCreateRollsBack(t *testing.T) {
	nettest.NeedNode(t)
	before := nettest.NodeState(t)
	for step := StepOpen; step < NumCreateSteps; step++ {
		t.Run(step.String(), func(t *testing.T) {
			pod := nettest.NewPod(t)
			podBefore := pod.State()
			injected := errors.New("injected")
			reached := false
			n := Network{Fault: func(s Step) error {
				if s == step {
					reached = true
					return injected
				}
				return nil
			}}
			_, err := n.Create(context.Background(), open(t, pod), Spec{"sandbox-1", "eth0", addrs("10.88.0.2", "fd00:88::2")})
			require.True(t, reached, "the step is never taken")
			require.ErrorIs(t, err, injected)
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, step, e.Step)
			assert.Equal(t, before, nettest.NodeState(t))
			assert.Equal(t, podBefore, pod.State())
		})
	}
}

// What fails after Create is undone as well.
func TestUndo(t *testing.T) {
	for _, before := range []struct {
		name string
		lo   func(*testing.T)
	}{
		{"lo was down", func(*testing.T) {}},
		{"lo was up", func(t *testing.T) {
			assert.NoError(t, netlink.LinkSetUp(linkByIndex(1)))
		}},
		{"lo was down but had its address", func(t *testing.T) {
			assert.NoError(t, netlink.LinkSetUp(linkByIndex(1)))
			assert.NoError(t, netlink.LinkSetDown(linkByIndex(1)))
		}},
	} {
		t.Run(before.name, func(t *testing.T) {
			pod := nettest.NewPod(t)
			pod.Do(func() { before.lo(t) })
			nodeBefore, podBefore := nettest.NodeState(t), pod.State()
			c, err := Network{}.Create(context.Background(), open(t, pod), Spec{"sandbox-1", "eth0", addrs("10.88.0.2", "fd00:88::2")})
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.Undo())
			assert.Equal(t, nodeBefore, nettest.NodeState(t))
			assert.Equal(t, podBefore, pod.State())
			require.NoError(t, c.Undo(), "twice is once")
			c.Close()
			assert.Error(t, c.Undo(), "too late")
			assert.Equal(t, nodeBefore, nettest.NodeState(t), "and the node's own lo is not touched")
		})
	}
}

// A caller that hangs up is noticed between two steps, whichever.
func TestCreateRollsBackWhenCancelled(t *testing.T) {
	nettest.NeedNode(t)
	before := nettest.NodeState(t)
	for step := StepEnter; step < NumCreateSteps; step++ {
		t.Run(step.String(), func(t *testing.T) {
			pod := nettest.NewPod(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			n := Network{Fault: func(s Step) error {
				if s == step-1 {
					cancel()
				}
				return nil
			}}
			_, err := n.Create(ctx, open(t, pod), Spec{"sandbox-1", "eth0", addrs("10.88.0.2", "fd00:88::2")})
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, before, nettest.NodeState(t))
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	spec := Spec{"sandbox-1", "eth0", addrs("10.88.0.2", "fd00:88::2")}
	t.Run("an interface name that is taken", func(t *testing.T) {
		pod := nettest.NewPod(t)
		pod.Do(func() { addBridge(t, "eth0", "") })
		nodeBefore, podBefore := nettest.NodeState(t), pod.State()
		_, err := Network{}.Create(context.Background(), open(t, pod), spec)
		assert.ErrorIs(t, err, ErrIfNameTaken)
		assert.Equal(t, nodeBefore, nettest.NodeState(t))
		assert.Equal(t, podBefore, pod.State())
	})
	t.Run("a foreign link with our name", func(t *testing.T) {
		pod := nettest.NewPod(t)
		addBridge(t, HostName("sandbox-1"), "")
		before := nettest.NodeState(t)
		_, err := Network{}.Create(context.Background(), open(t, pod), spec)
		assert.ErrorIs(t, err, ErrHostNameTaken)
		assert.Equal(t, before, nettest.NodeState(t), "the foreign link is as it was")
	})
	t.Run("an address that somebody has a route to", func(t *testing.T) {
		other := nettest.NewPod(t)
		attach(t, other, "sandbox-other", "10.88.0.9", "fd00:88::2")
		before := nettest.NodeState(t)
		_, err := Network{}.Create(context.Background(), open(t, nettest.NewPod(t)), spec)
		assert.ErrorIs(t, err, unix.EEXIST)
		assert.ErrorContains(t, err, "add the node's routes: fd00:88::2 dev wn")
		assert.Equal(t, before, nettest.NodeState(t))
	})
	t.Run("IPv6 switched off in the namespace", func(t *testing.T) {
		pod := nettest.NewPod(t)
		pod.Do(func() {
			assert.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0))
		})
		before := nettest.NodeState(t)
		_, err := Network{}.Create(context.Background(), open(t, pod), spec)
		assert.ErrorIs(t, err, ErrNoIPv6)
		assert.ErrorContains(t, err, "give the interface its addresses: fd00:88::2: IPv6 is switched off")
		assert.Equal(t, before, nettest.NodeState(t))
		attach(t, nettest.NewPod(t), "sandbox-2", "10.88.0.2", "fd00:88::2") // another namespace is not affected
	})
}

// The namespace may go whenever it likes: while it is open it is there, and when
// it goes it takes the link with it.
func TestNamespaceVanishes(t *testing.T) {
	pod := nettest.NewPod(t)
	before := nettest.NodeState(t)
	ns, err := OpenNetNS(pod.Path())
	require.NoError(t, err)
	w, err := NewWatch()
	require.NoError(t, err)
	defer func() {
		w.Close()
		for ok := true; ok; _, ok = w.Next() {
		}
	}()
	pod.Close()
	c, err := Network{}.Create(context.Background(), ns, Spec{"sandbox-1", "eth0", addrs("10.88.0.2", "fd00:88::2")})
	require.NoError(t, err)
	link := c.Link()
	c.Close()
	require.NoError(t, ns.Close())

	for {
		index, ok := w.Next()
		require.True(t, ok, "the watch ended")
		if index == link.HostIndex {
			break
		}
	}
	// The message precedes the end by a moment.
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, before, nettest.NodeState(t))
	}, time.Minute, 10*time.Millisecond)
	assert.NoError(t, Network{}.Doom(link.HostIndex, "sandbox-1"), "it is gone, which is all that Doom is for")
	assert.NoError(t, Network{}.Delete(link.HostIndex))
}

func TestOpenNetNS(t *testing.T) {
	nettest.NeedNode(t)
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name, path string
		want       error
	}{
		{"nothing", filepath.Join(dir, "nothing"), fs.ErrNotExist},
		{"a process that has ended", "/proc/4194304/ns/net", fs.ErrNotExist},
		{"a file", file, ErrNotNetNS},
		{"a directory", dir, ErrNotNetNS},
		{"a FIFO that nobody writes to", fifo, ErrNotNetNS},
		{"a device", "/dev/null", ErrNotNetNS},
		{"a namespace of another kind", "/proc/self/ns/mnt", ErrNotNetNS},
		{"the node's namespace", "/proc/thread-self/ns/net", ErrOwnNetNS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := OpenNetNS(tt.path)
			assert.ErrorIs(t, err, tt.want)
			assert.ErrorContains(t, err, tt.path)
		})
	}
}
