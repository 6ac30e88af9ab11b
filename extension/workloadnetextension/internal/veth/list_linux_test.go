// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
)

// addBridge adds a link that is not ours to the namespace it is called in.
func addBridge(t *testing.T, name, alias string) netlink.Link {
	return addForeign(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}}, alias, 0)
}

func addForeign(t *testing.T, link netlink.Link, alias string, group int) netlink.Link {
	require.NoError(t, netlink.LinkAdd(link))
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	if alias != "" {
		require.NoError(t, netlink.LinkSetAlias(link, alias))
	}
	require.NoError(t, netlink.LinkSetGroup(link, group))
	return link
}

func newVeth(name, peer string) *netlink.Veth {
	return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, PeerName: peer}
}

// Only a link with all of our marks is ours; one that has some is left alone by
// everything.
func TestForeignLinksAreLeftAlone(t *testing.T) {
	nettest.NeedNode(t)
	foreign := []netlink.Link{
		addForeign(t, newVeth("wn0123456789ab", "peer0"), "", 0),                      // our name
		addForeign(t, newVeth("mine", "peer1"), "", Group),                            // our group
		addForeign(t, newVeth("wn0123456789ac", "peer2"), "my alias", Group),          // another alias
		addForeign(t, newVeth("veth1", "peer3"), "workloadnet sandbox-1", 0),          // our alias
		addForeign(t, newVeth("wn0123456789ad", "peer4"), "workloadnet sandbox-1", 7), // another group
		addForeign(t, newVeth("veth2", "peer5"), "", doomed),                          // the doomed group
		addForeign(t, newVeth("wnxyz", "peer6"), "", Group),                           // not quite our name
		addForeign(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "wn0123456789ae", // not a veth
			TxQLen: -1}}, "workloadnet sandbox-1", Group),
	}
	before := nettest.NodeState(t)

	found, err := Network{}.List()
	require.NoError(t, err)
	assert.Empty(t, found)
	for _, link := range foreign {
		assert.ErrorIs(t, Network{}.Doom(link.Attrs().Index, "sandbox-1"), ErrNotOurs, link.Attrs().Name)
	}
	ours := attach(t, nettest.NewPod(t), "sandbox-1", "10.88.0.2")
	require.NoError(t, Network{}.Doom(ours.HostIndex, "sandbox-1"))
	require.NoError(t, Network{}.Reap())
	assert.Equal(t, before, nettest.NodeState(t))
}

func TestList(t *testing.T) {
	pods := []*nettest.Pod{nettest.NewPod(t), nettest.NewPod(t), nettest.NewPod(t)}
	marked := attach(t, pods[0], "sandbox-1", "10.88.0.2", "fd00:88::2")
	gone := attach(t, pods[1], "sandbox-2", "10.88.0.3", "fd00:88::3")
	require.NoError(t, Network{}.Doom(gone.HostIndex, "sandbox-2"))
	require.NoError(t, Network{}.Doom(gone.HostIndex, "sandbox-2"), "twice is once")
	remnant := create(t, pods[2], "sandbox-3", "10.88.0.4")

	found, err := Network{}.List()
	require.NoError(t, err)
	assert.ElementsMatch(t, []Found{
		{marked.HostName, marked.HostIndex, Marked, "sandbox-1"},
		{gone.HostName, gone.HostIndex, Doomed, ""},
		{remnant.HostName, remnant.HostIndex, Remnant, ""},
	}, found)

	routes, err := Network{}.Routes()
	require.NoError(t, err)
	assert.Equal(t, addrs("10.88.0.2", "fd00:88::2"), routes[marked.HostIndex])
	assert.Equal(t, addrs("10.88.0.4"), routes[remnant.HostIndex])
	assert.Empty(t, routes[gone.HostIndex], "a doomed link has no routes left")
}

func TestDoomRefusesAnothersLink(t *testing.T) {
	link := attach(t, nettest.NewPod(t), "sandbox-1", "10.88.0.2")
	before := nettest.NodeState(t)
	err := Network{}.Doom(link.HostIndex, "sandbox-2")
	assert.ErrorIs(t, err, ErrNotOurs)
	assert.ErrorContains(t, err, link.HostName)
	assert.Equal(t, before, nettest.NodeState(t))
}

func TestReap(t *testing.T) {
	for _, n := range []int{0, 1, 20} {
		t.Run(fmt.Sprint(n, " links"), func(t *testing.T) {
			keep := attach(t, nettest.NewPod(t), "sandbox-keep", "10.88.1.1")
			before := nettest.NodeState(t)
			for i := range n {
				id := fmt.Sprint("sandbox-", i)
				link := attach(t, nettest.NewPod(t), id, fmt.Sprintf("10.88.0.%d", i+2))
				require.NoError(t, Network{}.Doom(link.HostIndex, id))
			}
			require.NoError(t, Network{}.Reap())
			assert.Equal(t, before, nettest.NodeState(t))
			assert.Len(t, nettest.Lines(before, "link "+keep.HostName), 1)
		})
	}
}

func TestRestore(t *testing.T) {
	link := attach(t, nettest.NewPod(t), "sandbox-1", "10.88.0.2", "fd00:88::2")
	index, own := linkByIndex(link.HostIndex), addrs("10.88.0.2", "fd00:88::2")
	setting := func(name, value string) {
		t.Helper()
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+link.HostName+"/"+name, []byte(value), 0))
	}
	before := nettest.NodeState(t)
	for _, tt := range []struct {
		name string
		harm func(t *testing.T)
	}{
		{"set down", func(t *testing.T) { require.NoError(t, netlink.LinkSetDown(index)) }},
		{"IPv6 off and on", func(*testing.T) { setting("disable_ipv6", "1"); setting("disable_ipv6", "0") }},
		{"without its IPv4 gateway", func(t *testing.T) {
			require.NoError(t, netlink.AddrDel(index, &netlink.Addr{IPNet: ipNet(GatewayV4, 32)}))
		}},
		{"set down, with address generation", func(t *testing.T) {
			require.NoError(t, netlink.LinkSetDown(index))
			require.NoError(t, netlink.LinkSetIP6AddrGenMode(index, 0))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.harm(t)
			require.NotEqual(t, before, nettest.NodeState(t))
			require.NoError(t, Network{}.Restore(link.HostIndex, own))
			assert.Equal(t, before, nettest.NodeState(t))
			require.NoError(t, Network{}.Restore(link.HostIndex, own), "twice is once")
			assert.Equal(t, before, nettest.NodeState(t))
		})
	}
	t.Run("it heeds advertisements, as one of an earlier build's", func(t *testing.T) {
		setting("accept_ra", "1")
		require.NoError(t, Network{}.Restore(link.HostIndex, own))
		value, err := ("net/ipv6/conf/" + sysctl(link.HostName) + "/accept_ra").get()
		require.NoError(t, err)
		assert.Equal(t, "0", value)
	})
	t.Run("IPv6 is off: IPv4 works", func(t *testing.T) {
		require.NoError(t, netlink.LinkSetDown(index))
		setting("disable_ipv6", "1")
		assert.ErrorIs(t, Network{}.Restore(link.HostIndex, own), ErrNoIPv6)
		assert.Len(t, nettest.Lines(nettest.NodeState(t), "route 10.88.0.2/32 table 254", link.HostName), 1)
	})
}

func TestHostName(t *testing.T) {
	assert.Equal(t, HostName("a"), HostName("a"))
	assert.NotEqual(t, HostName("a"), HostName("b"))
	assert.Len(t, HostName("a"), 14, "an interface name has at most 15 bytes")
}

func TestHardwareAddrs(t *testing.T) {
	for id := range 100 {
		node, workload := hardwareAddrs(fmt.Sprint("sandbox-", id))
		assert.NotEqual(t, node, workload)
		for _, mac := range []net.HardwareAddr{node, workload} {
			assert.Len(t, mac, 6)
			assert.Equal(t, byte(2), mac[0]&3, "%s: locally administered, unicast", mac)
		}
	}
}
