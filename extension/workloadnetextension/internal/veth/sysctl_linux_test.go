// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
)

// uplink connects node to router by a link "up" on the node and "down" on the
// router, which has fe80::1 on it.
func uplink(t *testing.T, node, router *nettest.Pod) {
	ns, err := os.Open(router.Path())
	require.NoError(t, err)
	defer ns.Close()
	node.Do(func() {
		link := newVeth("up", "down")
		link.PeerNamespace = netlink.NsFd(int(ns.Fd()))
		assert.NoError(t, netlink.LinkAdd(link))
		assert.NoError(t, netlink.LinkSetUp(link))
	})
	router.Do(func() {
		link, err := netlink.LinkByName("down")
		if assert.NoError(t, err) {
			assert.NoError(t, netlink.LinkSetUp(link))
			assert.NoError(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(GatewayV6, 64), Flags: unix.IFA_F_NODAD}))
		}
	})
}

// advertise sends a router advertisement (RFC 4861 4.2) out of a link of from's,
// which it says is the default router for so many seconds.
func advertise(from *nettest.Pod, name string, seconds byte) (err error) {
	from.Do(func() {
		var link netlink.Link
		if link, err = netlink.LinkByName(name); err != nil {
			return
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
			return
		}
		const routerAdvertisement = 134
		allNodes := &unix.SockaddrInet6{Addr: netip.IPv6LinkLocalAllNodes().As16(), ZoneId: uint32(link.Attrs().Index)}
		err = unix.Sendto(fd, []byte{routerAdvertisement, 0, 0, 0, 64, 0, 0, seconds, 15: 0}, 0, allNodes)
	})
	return err
}

func defaultRoutes(node *nettest.Pod) []string {
	return nettest.Lines(node.State(), "route ::/0 table 254 via fe80::1 dev up")
}

// A node that has its own default route from a router's advertisements keeps it,
// and goes on listening to them.
func TestForwardingKeepsAdvertisedRoutes(t *testing.T) {
	node, router := nettest.NewPod(t), nettest.NewPod(t)
	uplink(t, node, router)
	await := func(seconds byte, routes int) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, advertise(router, "down", seconds))
			assert.Len(c, defaultRoutes(node), routes)
		}, time.Minute, 5*time.Millisecond)
	}
	await(60, 1)

	var changed []string
	var err error
	enable := func() { changed, err = EnableForwarding([]netip.Prefix{netip.MustParsePrefix("fd00:88::/64")}) }
	node.Do(enable)
	require.NoError(t, err)
	assert.Equal(t, []string{"net.ipv6.conf.up.accept_ra=2", "net.ipv6.conf.all.forwarding=1"}, changed)
	require.Len(t, defaultRoutes(node), 1)
	await(0, 0) // it is no router any more
	await(60, 1)

	node.Do(enable)
	require.NoError(t, err)
	assert.Empty(t, changed, "twice is once")
}

// What ignores advertisements while the node does not forward goes on ignoring them.
func TestForwardingTrustsNobodyNew(t *testing.T) {
	node := nettest.NewPod(t)
	ns := open(t, nettest.NewPod(t))
	var ours Link
	var changed []string
	values := map[string]string{}
	node.Do(func() {
		for _, name := range []string{"heeds", "vlan.7", "ignores", "forwards"} {
			assert.NoError(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}}))
		}
		for path, value := range map[string]string{"ignores/accept_ra": "0", "forwards/forwarding": "1"} {
			assert.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+path, []byte(value), 0))
		}
		c, err := Network{}.Create(context.Background(), ns, Spec{"sandbox-1", "eth0", addrs("10.88.0.2")})
		if !assert.NoError(t, err) {
			return
		}
		ours = c.Link()
		c.Close()
		changed, err = EnableForwarding([]netip.Prefix{netip.MustParsePrefix("fd00:88::/64")})
		assert.NoError(t, err)
		for _, name := range []string{"heeds", "vlan.7", "ignores", "forwards", ours.HostName, "default"} {
			b, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + name + "/accept_ra")
			assert.NoError(t, err)
			values[name] = strings.TrimSpace(string(b))
		}
	})
	slices.Sort(changed)
	assert.Equal(t, []string{
		"net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.heeds.accept_ra=2", "net.ipv6.conf.vlan/7.accept_ra=2",
	}, changed)
	assert.Equal(t, map[string]string{
		"heeds": "2", "vlan.7": "2", "ignores": "0", "forwards": "1", ours.HostName: "0", "default": "1",
	}, values)
}

// A node that does not forward IPv6 heeds advertisements, but not a workload's.
func TestWorkloadIsNoRouter(t *testing.T) {
	node, pod := nettest.NewPod(t), nettest.NewPod(t)
	ns := open(t, pod)
	var link Link
	node.Do(func() {
		c, err := Network{}.Create(context.Background(), ns, Spec{"sandbox-1", "eth0", addrs("10.88.0.2")})
		if assert.NoError(t, err) {
			link = c.Link()
			c.Close()
		}
	})
	pod.Do(func() {
		eth0, err := netlink.LinkByName("eth0")
		if assert.NoError(t, err) {
			assert.NoError(t, netlink.AddrAdd(eth0, &netlink.Addr{IPNet: ipNet(GatewayV6, 64), Flags: unix.IFA_F_NODAD}))
		}
	})
	// The second one is counted when the first has been dealt with.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, advertise(pod, "eth0", 60))
		var counters []byte
		var err error
		node.Do(func() { counters, err = os.ReadFile("/proc/thread-self/net/dev_snmp6/" + link.HostName) })
		assert.NoError(c, err)
		assert.Regexp(c, `Icmp6InType134\s+([2-9]|\d\d)`, string(counters))
	}, time.Minute, 5*time.Millisecond)
	assert.Empty(t, nettest.Lines(node.State(), "route ::/0"))
}

// With a read-only /proc/sys it must be so already that a workload's advertisements
// are ignored.
func TestReadOnlySysctls(t *testing.T) {
	for _, tt := range []struct {
		name, setting, value string
		want                 error
	}{
		{"no link heeds advertisements", "default/accept_ra", "0", nil},
		{"the node forwards", "all/forwarding", "1", nil},
		{"the node forwards and heeds them all the same", "default/accept_ra", "2", unix.EROFS},
		{"as the kernel has it", "default/accept_ra", "1", unix.EROFS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := nettest.NewPod(t)
			ns := open(t, nettest.NewPod(t))
			var err error
			node.Do(func() {
				assert.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+tt.setting, []byte(tt.value), 0))
				// The mount is the thread's, which ends.
				assert.NoError(t, unix.Unshare(unix.CLONE_NEWNS))
				assert.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
				assert.NoError(t, unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""))
				assert.NoError(t, unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
				var c *Creation
				if c, err = (Network{}).Create(context.Background(), ns, Spec{"sandbox-1", "eth0", addrs("10.88.0.2")}); err == nil {
					c.Close()
				}
			})
			assert.ErrorIs(t, err, tt.want)
			if tt.want != nil {
				assert.ErrorContains(t, err, "have the node's end ignore router advertisements: ")
			}
		})
	}
}
