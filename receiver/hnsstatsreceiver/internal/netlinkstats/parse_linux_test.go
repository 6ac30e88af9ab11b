// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The files named .bin are answers and notifications of Linux 6.18 on a
// little-endian machine, of a node with a bridge, a pod with a veth (va, eth0)
// and one with a macvlan.
func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return b
}

// messages splits a sample.
func messages(tb testing.TB, b []byte) (list []message) {
	tb.Helper()
	for len(b) > 0 {
		var m message
		var err error
		m, b, err = nextMessage(b)
		require.NoError(tb, err)
		list = append(list, m)
	}
	return list
}

// answers parses all of a dump but its end.
func answers[T any](tb testing.TB, name string, parse func([]byte) (T, error)) (list []T) {
	tb.Helper()
	all := messages(tb, sample(tb, name))
	end := all[len(all)-1]
	require.EqualValues(tb, unix.NLMSG_DONE, end.kind)
	require.NoError(tb, end.result())
	for _, m := range all[:len(all)-1] {
		v, err := parse(m.body)
		require.NoError(tb, err)
		list = append(list, v)
	}
	return list
}

func TestParseLinks(t *testing.T) {
	node := answers(t, "links_node.bin", parseLink)
	require.Len(t, node, 3)
	require.Equal(t, "lo", node[0].name)
	require.Equal(t, noKind, node[0].kind)
	require.NotEqualValues(t, unix.ARPHRD_ETHER, node[0].hardware)
	require.Equal(t, "br0", node[1].name)
	require.Equal(t, otherKind, node[1].kind)
	va := node[2]
	require.Equal(t, "va", va.name)
	require.Equal(t, vethKind, va.kind)
	require.EqualValues(t, 2, va.lower)
	require.EqualValues(t, 0, va.lowerNSID)
	require.Len(t, va.address, 6)
	require.True(t, va.hasCounters)
	require.NotZero(t, va.counters.rxPackets)

	pod := answers(t, "links_pod.bin", parseLink)
	require.Len(t, pod, 2)
	require.Equal(t, "eth0", pod[1].name)
	require.Equal(t, va.index, pod[1].lower)
	require.NotEqual(t, int32(noNSID), pod[1].lowerNSID)

	macvlan := answers(t, "links_macvlan_pod.bin", parseLink)
	require.Equal(t, "mv0", macvlan[1].name)
	require.Equal(t, stackedKind, macvlan[1].kind)
	require.Equal(t, node[1].index, macvlan[1].lower)
}

func TestParseAddresses(t *testing.T) {
	all := answers(t, "addresses_pod.bin", parseAddress)
	require.Equal(t, addrs("10.1.0.2", "10.9.0.2", "fd01::2"), addressesOf(2, all))
	require.Empty(t, addressesOf(1, all))

	failed := all[0]
	failed.failed = true
	require.False(t, failed.tellsPodsApart(), "another host has the address")
}

func TestParseStats(t *testing.T) {
	all := messages(t, sample(t, "stats.bin"))
	require.Len(t, all, 4)
	links := answers(t, "links_node.bin", parseLink)
	for i, m := range all[:3] {
		index, c, err := parseStats(m.body)
		require.NoError(t, err)
		require.Equal(t, links[i].index, index)
		require.Equal(t, links[i].counters, c)
	}
}

func TestParseNSIDs(t *testing.T) {
	require.ElementsMatch(t, []int32{0, 1, 2}, answers(t, "nsids.bin", parseNSID))
	only := messages(t, sample(t, "nsid.bin"))
	id, err := parseNSID(only[0].body)
	require.NoError(t, err)
	require.EqualValues(t, 2, id)
}

func TestParseErrorInDone(t *testing.T) {
	all := messages(t, sample(t, "error_unknown_nsid.bin"))
	require.ErrorIs(t, all[0].result(), unix.EINVAL)
}

func TestParseNotifications(t *testing.T) {
	var kinds []eventKind
	var names []string
	for _, m := range messages(t, sample(t, "notifications.bin")) {
		e, err := parseEvent(m, noNSID)
		require.NoError(t, err)
		if e.kind == noEvent {
			continue
		}
		kinds = append(kinds, e.kind)
		names = append(names, e.link.name)
	}
	require.Contains(t, kinds, namespaceAppeared)
	require.Contains(t, kinds, namespaceGone)
	require.Contains(t, kinds, linkGone)
	require.NotContains(t, kinds, namespaceChanged, "our own namespace's addresses do not matter")
	require.NotContains(t, names, "br0")
	require.Contains(t, names, "va")

	for _, m := range messages(t, sample(t, "notifications.bin")) {
		e, err := parseEvent(m, 7)
		require.NoError(t, err)
		if m.kind == unix.RTM_NEWNSID || m.kind == unix.RTM_DELNSID {
			require.Zero(t, e, "another namespace's own numbers")
		} else {
			require.Equal(t, event{kind: namespaceChanged, nsid: 7}, e)
		}
	}
}

// A bridge's RTM_DELLINK of a port (AF_BRIDGE) is not the link's end.
func TestBridgePortIsNoLinkEnd(t *testing.T) {
	bridge := 0
	for _, m := range messages(t, sample(t, "notifications.bin")) {
		if m.kind != unix.RTM_DELLINK || m.body[0] != unix.AF_BRIDGE {
			continue
		}
		bridge++
		e, err := parseEvent(m, noNSID)
		require.NoError(t, err)
		require.Zero(t, e)
	}
	require.NotZero(t, bridge)
}

// Every parser must refuse every beginning of what it parses, or read less of
// it, and never reach beyond.
func TestTruncated(t *testing.T) {
	for _, name := range binaries(t) {
		for b := sample(t, name); len(b) > 0; {
			m, rest, err := nextMessage(b)
			require.NoError(t, err)
			for end := range m.body {
				parseAll(message{kind: m.kind, body: m.body[:end:end]})
			}
			for end := range unix.SizeofNlMsghdr + len(m.body) {
				_, _, err := nextMessage(b[:end:end])
				require.ErrorIs(t, err, errMalformed)
			}
			b = rest
		}
	}
}

func binaries(tb testing.TB) (names []string) {
	paths, err := filepath.Glob("testdata/*.bin")
	require.NoError(tb, err)
	require.NotEmpty(tb, paths)
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

func parseAll(m message) {
	_, _ = parseLink(m.body)
	_, _ = parseAddress(m.body)
	_, _ = parseNSID(m.body)
	_, _, _ = parseStats(m.body)
	_, _ = parseEvent(m, noNSID)
	_, _ = parseEvent(m, 1)
	_ = m.result()
}

// FuzzMessages feeds datagrams to all that reads them.
func FuzzMessages(f *testing.F) {
	for _, name := range binaries(f) {
		b := sample(f, name)
		f.Add(b[:min(len(b), 8192)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			m, rest, err := nextMessage(b)
			if err != nil {
				require.ErrorIs(t, err, errMalformed)
				return
			}
			require.Less(t, len(rest), len(b))
			parseAll(m)
			b = rest
		}
	})
}

func FuzzParseLink(f *testing.F) {
	for _, name := range []string{"links_node.bin", "links_pod.bin", "links_macvlan_pod.bin"} {
		for _, m := range messages(f, sample(f, name)) {
			f.Add(m.body)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := parseLink(b); err != nil {
			require.ErrorIs(t, err, errMalformed)
			require.Zero(t, l)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, m := range messages(f, sample(f, "addresses_pod.bin")) {
		f.Add(m.body)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAddress(b)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		require.True(t, a.addr.IsValid())
		require.False(t, a.addr.Is4In6())
	})
}

func FuzzParseStats(f *testing.F) {
	for _, m := range messages(f, sample(f, "stats.bin")) {
		f.Add(m.body)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, c, err := parseStats(b); err != nil {
			require.ErrorIs(t, err, errMalformed)
			require.Zero(t, c)
		}
	})
}

func TestParseMounts(t *testing.T) {
	const cni = "netns/cni-4d6bfb1c-6f0e-1c33-8f0b-0a3a6f2c9f11"
	require.Equal(t, []nsMount{
		{inode: 4026532246, path: "/run/" + cni},
		{inode: 4026532315, path: `/run/netns/m 2\x`},
		{inode: 4026532246, path: "/var/run/" + cni},
	}, parseMounts(sample(t, "mountinfo")))
}

func FuzzParseMounts(f *testing.F) {
	f.Add(sample(f, "mountinfo"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range parseMounts(b) {
			require.NotEmpty(t, m.path)
		}
	})
}

func TestEventLog(t *testing.T) {
	log := eventLog{changed: map[int32]struct{}{}}
	changed := event{kind: namespaceChanged, nsid: 3}
	log.add(changed)
	log.add(changed)
	log.add(event{})
	log.add(event{kind: namespaceGone, nsid: 3})
	log.add(changed)
	events, lost := log.take(nil)
	require.False(t, lost)
	require.Equal(t, []event{changed, {kind: namespaceGone, nsid: 3}, changed}, events,
		"one change is as good as many, but for another namespace")

	for i := range int32(maxEvents + 1) {
		log.add(event{kind: namespaceChanged, nsid: i})
	}
	events, lost = log.take(nil)
	require.True(t, lost, "the log is bounded")
	require.LessOrEqual(t, len(events), maxEvents)
	_, lost = log.take(events)
	require.False(t, lost)
}
