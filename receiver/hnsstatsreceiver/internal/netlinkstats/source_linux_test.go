// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint/endpointtest"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	receive  = endpoint.Receive
	transmit = endpoint.Transmit
)

// How the usual CNI plugins connect a pod. Each pod can reach 10.1.0.1.
var networks = map[string]func(n *netnstest.Node) (a, b *netnstest.Pod){
	"bridge": func(n *netnstest.Node) (a, b *netnstest.Pod) {
		n.IP("link add br0 type bridge\naddr add 10.1.0.1/24 dev br0\naddr add fd01::1/64 dev br0 nodad\nlink set br0 up")
		a = n.Pod().Veth("va", "eth0", "10.1.0.2/24", "fd01::2/64")
		b = n.Pod().Veth("vb", "eth0", "10.1.0.3/24", "fd01::3/64")
		n.IP("link set va master br0\nlink set vb master br0")
		return a, b
	},
	"ptp": func(n *netnstest.Node) (a, b *netnstest.Pod) {
		a = n.Pod().Veth("va", "eth0", "10.1.0.2/32", "fd01::2/128")
		b = n.Pod().Veth("vb", "eth0", "10.1.0.3/32", "fd01::3/128")
		n.IP("addr add 10.1.0.1/32 dev va\naddr add 10.1.0.1/32 dev vb\nroute add 10.1.0.2/32 dev va\nroute add 10.1.0.3/32 dev vb")
		for _, p := range []*netnstest.Pod{a, b} {
			p.Inside("route add 10.1.0.1/32 dev eth0\nroute add default via 10.1.0.1 dev eth0")
		}
		return a, b
	},
	"routed": func(n *netnstest.Node) (a, b *netnstest.Pod) { // as Calico does
		n.IP("addr add 10.1.0.1/32 dev lo")
		a = n.Pod().Veth("va", "eth0", "10.1.0.2/32", "fd01::2/128")
		b = n.Pod().Veth("vb", "eth0", "10.1.0.3/32", "fd01::3/128")
		n.IP("addr add 169.254.1.1/32 dev va scope link\naddr add 169.254.1.1/32 dev vb scope link\nroute add 10.1.0.2/32 dev va\nroute add 10.1.0.3/32 dev vb")
		for _, p := range []*netnstest.Pod{a, b} {
			p.Inside("route add 169.254.1.1 dev eth0 scope link\nroute add default via 169.254.1.1 dev eth0")
		}
		return a, b
	},
}

func TestNetworks(t *testing.T) {
	for name, build := range networks {
		t.Run(name, func(t *testing.T) {
			n := netnstest.NewNode(t)
			a, b := build(n)
			s := started(n)

			a.Send("10.1.0.1", 100, 1000)
			b.Send("10.1.0.1", 10, 500)
			got, want := readStill(s, a, "eth0")
			require.Len(t, got, 2)
			requireCounts(t, want, got[key(a, "eth0")])
			require.Equal(t, addrs("10.1.0.2", "fd01::2"), got[key(a, "eth0")].Addresses)
			require.Equal(t, addrs("10.1.0.3", "fd01::3"), got[key(b, "eth0")].Addresses)
			const frame = 14 + 20 + 8 // Ethernet, IPv4 and UDP headers
			sent := got[key(a, "eth0")].Bytes[transmit]
			require.GreaterOrEqual(t, sent, uint64(100*(1000+frame)))
			require.Less(t, sent, uint64(102*(1000+frame)))
			require.Less(t, got[key(a, "eth0")].Bytes[receive], uint64(100*(1000+frame)))

			got, want = readStill(s, b, "eth0")
			requireCounts(t, want, got[key(b, "eth0")])
		})
	}
}

// Errors above all, which no veth counts.
func TestTotalsAreThePods(t *testing.T) {
	const receive, transmit = endpoint.Receive, endpoint.Transmit
	c := counters{
		rxBytes: 1, txBytes: 2, rxPackets: 3, txPackets: 4,
		rxDropped: 5, txDropped: 6, rxErrors: 7, txErrors: 8,
	}
	type pair = [endpoint.NumDirections]uint64
	for _, tt := range []struct {
		name   string
		inside bool
		want   endpoint.Counters
	}{
		{"what the host's end receives, the pod has transmitted", false, endpoint.Counters{
			Bytes: pair{receive: 2, transmit: 1}, Packets: pair{receive: 4, transmit: 3},
			Dropped: pair{receive: 6, transmit: 5}, Errors: &pair{receive: 8, transmit: 7},
		}},
		{"a link in the pod counts as the pod", true, endpoint.Counters{
			Bytes: pair{receive: 1, transmit: 2}, Packets: pair{receive: 3, transmit: 4},
			Dropped: pair{receive: 5, transmit: 6}, Errors: &pair{receive: 7, transmit: 8},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &port{inside: tt.inside, space: &namespace{}, read: 1, counters: c}
			require.Equal(t, &tt.want, (&totals{}).of(p))
		})
	}
}

// A packet too large for the other end is dropped by a veth, and counted at
// both ends.
func TestDropsAreThePods(t *testing.T) {
	n := netnstest.NewNode(t)
	small := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	large := n.Pod().Veth("vb", "eth0", "10.2.0.2/24")
	n.IP("addr add 10.1.0.1/24 dev va\naddr add 10.2.0.1/24 dev vb\nlink set vb mtu 600")
	small.Inside("link set eth0 mtu 600")
	small.Send("10.1.0.1", 1, 10) // neighbours know each other now
	large.Send("10.2.0.1", 1, 10)
	s := started(n)

	node, err := exec.Command("bash", "-c", "for i in 1 2 3; do head -c 1000 /dev/zero > /dev/udp/10.1.0.2/9; done").CombinedOutput()
	require.NoErrorf(t, err, "%s", node)
	large.Send("10.2.0.1", 5, 1000)

	got := read(n, s)
	require.Equal(t, [2]uint64{receive: 3}, got[key(small, "eth0")].Dropped)
	require.Equal(t, [2]uint64{transmit: 5}, got[key(large, "eth0")].Dropped)
}

func TestAddresses(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod().Veth("va", "eth0")
	s := started(n)
	address := func() []netip.Addr { return read(n, s)[key(p, "eth0")].Addresses }
	require.Empty(t, address())

	p.Inside("addr add fd01::2/64 dev eth0 nodad\naddr add fd01::3/64 dev eth0 nodad")
	require.Equal(t, addrs("fd01::2", "fd01::3"), address(), "the first one given comes first")
	p.Inside("addr add 10.1.0.2/24 dev eth0\naddr add 10.1.0.3/24 dev eth0")
	require.Equal(t, addrs("10.1.0.2", "10.1.0.3", "fd01::2", "fd01::3"), address(), "IPv4 before IPv6")
	p.Inside("addr add 169.254.1.2/16 dev eth0 scope link\naddr add 127.0.0.2/8 dev eth0\naddr add fe80::2/64 dev eth0 nodad")
	require.Len(t, address(), 4, "what does not tell pods apart is left out")
	p.Inside("addr add 10.9.0.2 peer 10.9.0.1/32 dev eth0")
	require.Contains(t, address(), netip.MustParseAddr("10.9.0.2"), "the pod's end of a point-to-point address")
	require.NotContains(t, address(), netip.MustParseAddr("10.9.0.1"))
	p.Inside("addr del 10.1.0.2/24 dev eth0\naddr del fd01::2/64 dev eth0")
	require.NotContains(t, address(), netip.MustParseAddr("10.1.0.2"))
	require.NotContains(t, address(), netip.MustParseAddr("fd01::2"))
}

// The kernel announces the two families to groups of their own.
func TestAddressOfOneFamilyAlone(t *testing.T) {
	for _, family := range []struct{ name, before, after string }{
		{"IPv4", "10.1.0.2/24", "10.1.0.3/24"},
		{"IPv6", "fd01::2/64", "fd01::3/64"},
	} {
		t.Run(family.name, func(t *testing.T) {
			n := netnstest.NewNode(t)
			p := n.Pod().Veth("va", "eth0", family.before)
			s := started(n)
			// The kernel announces a link's state some time after it has changed, and
			// its link-local address once nobody else has it.
			netnstest.Eventually(t, "the interface is quiet", func() bool {
				link, err := exec.Command("ip", "-n", p.NetNS, "address", "show", "eth0").Output()
				return err == nil && strings.Contains(string(link), "state UP") && !strings.Contains(string(link), "tentative")
			})
			before := netip.MustParsePrefix(family.before).Addr()
			require.Equal(t, []netip.Addr{before}, read(n, s)[key(p, "eth0")].Addresses)

			p.Inside("addr add " + family.after + " dev eth0")
			after := netip.MustParsePrefix(family.after).Addr()
			require.Equal(t, []netip.Addr{before, after}, read(n, s)[key(p, "eth0")].Addresses)
		})
	}
}

func TestManyInterfaces(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod()
	for i := range 5 {
		p.Veth(fmt.Sprintf("v%d", i), fmt.Sprintf("net%d", i), fmt.Sprintf("10.%d.0.2/24", i))
		n.IP(fmt.Sprintf("addr add 10.%d.0.1/24 dev v%d", i, i))
	}
	s := started(n)
	for i := range 5 {
		p.Send(fmt.Sprintf("10.%d.0.1", i), 10*(i+1), 100)
	}
	ids := map[string]bool{}
	for i := range 5 {
		name := fmt.Sprintf("net%d", i)
		got, want := readStill(s, p, name)
		require.Len(t, got, 5)
		e := got[key(p, name)]
		require.Equal(t, addrs(fmt.Sprintf("10.%d.0.2", i)), e.Addresses)
		requireCounts(t, want, e)
		require.GreaterOrEqual(t, e.Packets[transmit], uint64(10*(i+1)))
		ids[e.ID] = true
	}
	require.Len(t, ids, 5)
}

func TestRename(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod().Veth("va", "tmp0", "10.1.0.2/24")
	s := started(n)
	before := read(n, s)[key(p, "tmp0")]

	p.Inside("link set tmp0 down\nlink set tmp0 name eth0\nlink set eth0 up")
	n.IP("link set va down\nlink set va name vrenamed\nlink set vrenamed up")
	got, want := readStill(s, p, "eth0")
	require.Len(t, got, 1)
	require.Equal(t, before.ID, got[key(p, "eth0")].ID)
	requireCounts(t, want, got[key(p, "eth0")])
}

func TestNoPods(t *testing.T) {
	n := netnstest.NewNode(t)
	n.IP(`link add br0 type bridge
link add here type veth peer name there
link add vx0 type vxlan id 7 dstport 4789 local 127.0.0.1 nolearning
tuntap add dev tun0 mode tun
tuntap add dev tap0 mode tap
link add mv0 link br0 type macvlan`)
	s := started(n)
	require.Empty(t, read(n, s), "links of the node")

	p := n.Pod()
	p.Inside(`link add br0 type bridge
link add here type veth peer name there
link add vx0 type vxlan id 7 dstport 4789 local 127.0.0.1 nolearning
tuntap add dev tun0 mode tun
link add mv0 link br0 type macvlan
link set lo up`)
	nested := n.Pod()
	p.Inside("link add up0 type veth peer name eth0 netns " + nested.NetNS)
	nested.Up("eth0", "10.8.0.2/24")
	require.Empty(t, read(n, s), "links that do not connect a pod to the node")
}

func TestInterfacesWithoutHostEnd(t *testing.T) {
	kinds := map[string]string{"macvlan": "type macvlan mode bridge", "vlan": "type vlan id 7", "ipvlan": "type ipvlan mode l2"}
	for kind, options := range kinds {
		t.Run(kind, func(t *testing.T) {
			n := netnstest.NewNode(t)
			n.IP("link add low type veth peer name high\nlink set low up\nlink set high up")
			if out, err := exec.Command("ip", strings.Fields("link add probe link low "+options)...).CombinedOutput(); err != nil {
				require.Contains(t, string(out), "Unknown device type")
				t.Skipf("this kernel has no %s", kind)
			}
			n.IP("link del probe")
			s := started(n)

			moved := n.Pod()
			n.IP("link add name tmp0 link low " + options + "\nlink set tmp0 netns " + moved.NetNS)
			moved.Inside("link set tmp0 name eth0")
			moved.Up("eth0", "10.1.0.2/24", "fd01::2/64")
			require.Equal(t, addrs("10.1.0.2", "fd01::2"), read(n, s)[key(moved, "eth0")].Addresses)

			if kind != "vlan" { // one link for one VLAN
				// As the CNI plugins do: the kernel gives the namespace no id then.
				made := n.Pod()
				n.IP("link add name eth0 link low netns " + made.NetNS + " " + options)
				made.Up("eth0", "10.1.0.3/24")
				require.Equal(t, addrs("10.1.0.3"), read(n, s)[key(made, "eth0")].Addresses)
			}

			moved.Inside("neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev eth0")
			moved.Send("10.1.0.9", 20, 100)
			all, want := readStill(s, moved, "eth0")
			got := all[key(moved, "eth0")]
			requireCounts(t, want, got)
			require.GreaterOrEqual(t, got.Packets[transmit], uint64(20))

			key := key(moved, "eth0")
			moved.Delete()
			netnstest.Eventually(t, "the kernel has ended the namespace", func() bool {
				_, there := read(n, s)[key]
				return !there
			})
		})
	}
}

// A namespace that nothing mounts where the collector sees it is known by its
// addresses alone.
func TestUnmountedNamespace(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod().Veth("va", "eth0")
	sleep := exec.Command("ip", "netns", "exec", p.NetNS, "cat")
	stdin, err := sleep.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, sleep.Start())
	t.Cleanup(func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, sleep.Wait())
	})
	inside := func(command string) {
		out, err := exec.Command("nsenter", append([]string{"-t", fmt.Sprint(sleep.Process.Pid), "-n", "ip"}, strings.Fields(command)...)...).CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
	}
	netnstest.Eventually(t, "the process is in the namespace", func() bool {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", sleep.Process.Pid))
		return err == nil && ns == fmt.Sprintf("net:[%d]", p.Inode())
	})
	p.Delete()

	s := started(n)
	require.Empty(t, read(n, s), "nothing could find the pod")
	inside("addr add 10.1.0.2/24 dev eth0")
	got := read(n, s)
	require.Len(t, got, 1)
	require.Equal(t, addrs("10.1.0.2"), got["0/eth0"].Addresses)
}

func TestCreated(t *testing.T) {
	n := netnstest.NewNode(t)
	old := n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	n.IP("addr add 10.1.0.1/24 dev va")
	old.Send("10.1.0.1", 1, 1)
	s := started(n)
	before := time.Now()
	fresh := n.Pod().Veth("vb", "eth0", "10.2.0.2/24")
	n.IP("addr add 10.2.0.1/24 dev vb")
	fresh.Send("10.2.0.1", 1, 1)
	got := read(n, s)
	require.Zero(t, got[key(old, "eth0")].Created, "it had counted before the source looked")
	require.WithinRange(t, got[key(fresh, "eth0")].Created, before, time.Now())
}

func TestContract(t *testing.T) {
	n := netnstest.NewNode(t)
	n.Pod().Veth("va", "eth0", "10.1.0.2/24")
	n.Pod().Veth("vb", "eth0", "10.1.0.3/24")
	endpointtest.TestContract(t, New(Config{TCP: true}, zaptest.NewLogger(t)))
}
