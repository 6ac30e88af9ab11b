// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// The sources of these tests, strongest first.
const (
	pushed = iota
	cri
	k8s
	file
	numSources
)

const grace = time.Minute

// A node is a cache with a clock that the test moves.
type node struct {
	*Cache
	t     *testing.T
	clock *fakeClock
}

func newNode(t *testing.T) *node {
	clock := newFakeClock()
	n := &node{Cache: New(numSources, grace, clock.read), t: t, clock: clock}
	t.Cleanup(n.isConsistent)
	return n
}

// at returns the time that many seconds after the test's begin.
func at(seconds float64) time.Time {
	return testEpoch.Add(time.Duration(seconds * float64(time.Second)))
}

// until lets time pass to at(seconds) and the cache work.
func (n *node) until(seconds float64) {
	n.clock.pass(at(seconds).Sub(n.clock.now()))
	n.Expire(time.Second)
}

func (n *node) found(q podidentity.Query, name string) *podidentity.Identity {
	n.t.Helper()
	id, outcome := n.Resolve(q)
	require.Equal(n.t, podidentity.Found, outcome, "%+v", q)
	require.Equal(n.t, name, id.Name, "%+v", q)
	return id
}

func (n *node) not(q podidentity.Query, want podidentity.Outcome) {
	n.t.Helper()
	id, outcome := n.Resolve(q)
	require.Equal(n.t, want, outcome, "%+v", q)
	require.Nil(n.t, id)
}

// isConsistent checks what must hold whatever happened before: after all is
// ended and the grace period is over, nothing is left.
func (n *node) isConsistent() {
	for source := range numSources {
		n.Replace(source, nil, time.Time{})
	}
	assert.Zero(n.t, n.Pods())
	n.clock.pass(2 * grace)
	n.Expire(time.Second)
	assert.Zero(n.t, n.uids.m.Size())
	assert.Zero(n.t, n.sandboxes.m.Size())
	assert.Zero(n.t, n.hns.m.Size())
	assert.Zero(n.t, n.netns.m.Size())
	assert.Zero(n.t, n.addrs.m.Size())
	assert.Empty(n.t, n.tombstones.m)
	assert.Empty(n.t, n.graves.m)
	assert.Empty(n.t, n.Rivalries())
	assert.Empty(n.t, n.rivalries.m)
	assert.Empty(n.t, n.expiries)
	assert.Empty(n.t, n.intern.sets.m)
	for source := range numSources {
		assert.Empty(n.t, n.owners[source].m)
	}
}

func addrs(list ...string) (a []netip.Addr) {
	for _, s := range list {
		a = append(a, netip.MustParseAddr(s))
	}
	return a
}

func byAddr(s string) podidentity.Query { return podidentity.Query{Address: netip.MustParseAddr(s)} }

func byAddrAt(s string, t time.Time) podidentity.Query {
	return podidentity.Query{Address: netip.MustParseAddr(s), At: t}
}

// sandbox is a pod as CRI tells it.
func sandbox(id, uid, name string, netns uint64, addresses ...string) podidentity.Record {
	return podidentity.Record{
		Owner: id, Sandbox: id, NetNS: netns, Addresses: addrs(addresses...),
		Identity: podidentity.Identity{Name: name, Namespace: "shop", UID: uid},
	}
}

func begin(r podidentity.Record, t time.Time) podidentity.Record {
	r.Begin = t
	return r
}

// The API server tells of a pod before it has an address, and of the address late.
func TestAddressThatIsToldLate(t *testing.T) {
	n := newNode(t)
	pending := podidentity.Record{Owner: "u1", Begin: at(0), Identity: podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u1"}}
	n.Put(k8s, pending, false)
	n.until(30)
	running := begin(pending, at(5))
	running.Addresses = addrs("10.0.0.1")
	n.Put(k8s, running, false)
	n.found(byAddrAt("10.0.0.1", at(5)), "web-0")
	n.found(byAddr("10.0.0.1"), "web-0")
	n.not(byAddrAt("10.0.0.1", at(4)), podidentity.Unknown)
	n.found(podidentity.Query{UID: "u1", At: at(1)}, "web-0")

	// What comes to it later has no time of its own.
	n.until(40)
	running.Addresses = addrs("10.0.0.1", "10.0.0.2")
	n.Put(k8s, running, false)
	n.found(byAddrAt("10.0.0.1", at(5)), "web-0")
	n.found(byAddr("10.0.0.2"), "web-0")
	n.not(byAddrAt("10.0.0.2", at(35)), podidentity.Unknown)
}

// A state file and a runtime state one begin of a pod, whenever it gets an address.
func TestAddressThatComesLateIsNotDatedBack(t *testing.T) {
	n := newNode(t)
	fresh := begin(sandbox("s2", "u2", "new", 0), at(0))
	n.Put(cri, fresh, false)
	n.Put(cri, begin(sandbox("s1", "u1", "old", 0, "10.0.0.1"), at(0)), false)
	n.until(10)
	n.End(cri, "s1", time.Time{}, true)
	n.until(12)
	fresh.Addresses = addrs("10.0.0.1")
	n.Put(cri, fresh, false)
	n.found(byAddr("10.0.0.1"), "new")
	n.found(byAddrAt("10.0.0.1", at(5)), "old")
	n.until(2 * grace.Seconds())
	n.not(byAddrAt("10.0.0.1", at(5)), podidentity.Unknown)
}

func TestEveryKeyOfAPodResolves(t *testing.T) {
	n := newNode(t)
	r := sandbox("s1", "u1", "web-0", 41, "10.0.0.1", "fd00::1")
	r.HNSEndpoints = []string{"41D40000-820A-406A-ADE6-6B0400000063"}
	n.Put(cri, r, false)
	for name, q := range map[string]podidentity.Query{
		"UID":                    {UID: "u1"},
		"sandbox":                {Sandbox: "s1"},
		"container, the sandbox": {Container: "s1"},
		"HNS endpoint":           {HNSEndpoint: "41d40000-820a-406a-ade6-6b0400000063"},
		"HNS endpoint in braces": {HNSEndpoint: "{41D40000-820A-406A-ADE6-6B0400000063}"},
		"namespace":              {NetNS: 41},
		"IPv4":                   byAddr("10.0.0.1"),
		"IPv4 mapped to IPv6":    byAddr("::ffff:10.0.0.1"),
		"IPv6":                   byAddr("fd00::1"),
		"IPv6 with a zone":       byAddr("fd00::1%eth0"),
	} {
		t.Run(name, func(t *testing.T) {
			id, outcome := n.Resolve(q)
			require.Equal(t, podidentity.Found, outcome)
			require.Equal(t, podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u1"}, *id)
		})
	}
	require.Equal(t, 1, n.Pods())
}

func TestWhatTellsNoPodsApartIsNoKey(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "web-0", 0, "127.0.0.1", "::1", "fe80::1", "0.0.0.0", "224.0.0.1"), false)
	for _, q := range []podidentity.Query{
		byAddr("127.0.0.1"), byAddr("::1"), byAddr("fe80::1"), byAddr("0.0.0.0"), byAddr("224.0.0.1"),
		{}, {HNSEndpoint: "no GUID"}, {UID: "u2"}, {Sandbox: "s2"}, {NetNS: 1}, byAddr("10.0.0.1"),
	} {
		n.not(q, podidentity.Unknown)
	}
	require.False(t, HasKey(&podidentity.Record{Addresses: addrs("127.0.0.1"), HNSEndpoints: []string{"x"}}))
	require.True(t, HasKey(&podidentity.Record{Sandbox: "s"}))
}

func TestHostNetworkPodOwnsNoAddress(t *testing.T) {
	n := newNode(t)
	r := sandbox("s1", "u1", "proxy", 1, "192.168.0.1")
	r.HostNetwork = true
	n.Put(cri, r, false)
	n.not(byAddr("192.168.0.1"), podidentity.Unknown)
	n.not(podidentity.Query{NetNS: 1}, podidentity.Unknown)
	n.found(podidentity.Query{UID: "u1"}, "proxy")
	n.found(podidentity.Query{Sandbox: "s1"}, "proxy")
}

func TestLateRemovalOfTheOldOwnerLeavesTheNewHolder(t *testing.T) {
	n := newNode(t)
	n.Put(k8s, podidentity.Record{Owner: "u1", Identity: podidentity.Identity{Name: "old", UID: "u1"}, Addresses: addrs("10.0.0.1")}, false)
	n.until(10)
	n.Put(k8s, podidentity.Record{Owner: "u2", Identity: podidentity.Identity{Name: "new", UID: "u2"}, Addresses: addrs("10.0.0.1")}, false)
	n.not(byAddr("10.0.0.1"), podidentity.Ambiguous) // two live pods claim it
	n.until(12)
	n.End(k8s, "u1", time.Time{}, true)
	n.found(byAddr("10.0.0.1"), "new")
	n.not(byAddrAt("10.0.0.1", at(11)), podidentity.Ambiguous) // what was ambiguous stays so
	n.found(byAddrAt("10.0.0.1", at(5)), "old")
	n.found(byAddrAt("10.0.0.1", at(12)), "new")
}

func TestEndedLeaseAnswersForItsTime(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "old", 41, "10.0.0.1"), false)
	n.until(10)
	n.End(cri, "s1", time.Time{}, true)
	n.not(byAddr("10.0.0.1"), podidentity.Ended)
	n.not(byAddrAt("10.0.0.1", at(10)), podidentity.Ended)
	n.found(byAddrAt("10.0.0.1", at(9.9)), "old")
	n.not(byAddrAt("10.0.0.1", at(-1)), podidentity.Unknown) // nobody is known to have held it then
	n.until(11)
	n.Put(cri, sandbox("s2", "u2", "new", 42, "10.0.0.1"), false)
	n.found(byAddr("10.0.0.1"), "new")
	n.found(byAddrAt("10.0.0.1", at(9.9)), "old")
	n.not(byAddrAt("10.0.0.1", at(10.5)), podidentity.Ended)
	n.until(69.9)
	n.found(byAddrAt("10.0.0.1", at(9.9)), "old")
	n.until(70)
	n.not(byAddrAt("10.0.0.1", at(9.9)), podidentity.Unknown)
	n.found(byAddrAt("10.0.0.1", at(11)), "new")
}

func TestLateNewsOfAnEndShortensTheGrace(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "old", 41, "10.0.0.1"), false)
	n.until(40)
	n.End(cri, "s1", at(10), true)
	n.not(byAddrAt("10.0.0.1", at(11)), podidentity.Ended)
	n.found(byAddrAt("10.0.0.1", at(9)), "old")
	n.until(70)
	n.not(byAddrAt("10.0.0.1", at(9)), podidentity.Unknown)
}

func TestKeyOfOnePodOnlyAnswersForDataFromBeforeTheFirstSight(t *testing.T) {
	n := newNode(t)
	n.until(10)
	n.Put(cri, begin(sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), at(8)), false)
	n.found(podidentity.Query{UID: "u1", At: at(5)}, "web-0")
	n.found(podidentity.Query{Sandbox: "s1", At: at(5)}, "web-0")
	// An address or a namespace can have been another pod's then.
	n.not(podidentity.Query{NetNS: 41, At: at(5)}, podidentity.Unknown)
	n.not(byAddrAt("10.0.0.1", at(5)), podidentity.Unknown)
	n.found(byAddrAt("10.0.0.1", at(8)), "web-0")
}

func TestStrongerKeyDecides(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "old", 41, "10.0.0.1"), false)
	n.Put(cri, sandbox("s2", "u2", "new", 42, "10.0.0.2"), false)
	q := byAddr("10.0.0.1")
	q.NetNS = 42
	n.found(q, "new")
	n.End(cri, "s2", time.Time{}, true)
	n.not(q, podidentity.Ended) // the address is somebody's, but the namespace was another's
	n.Put(cri, sandbox("s3", "u3", "a", 43), false)
	n.Put(file, sandbox("s4", "u4", "b", 43), false)
	q.NetNS = 43
	n.not(q, podidentity.Ambiguous)
}

func TestHolderOfTheAddressWithAnotherStrongKeyIsAnotherPod(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
	q := byAddr("10.0.0.1")
	q.NetNS = 99
	n.not(q, podidentity.Mismatch)
	q = byAddr("10.0.0.1")
	q.HNSEndpoint = "41d40000-820a-406a-ade6-6b0400000063"
	n.found(q, "web-0") // nothing is known of its HNS endpoints
	n.not(podidentity.Query{UID: "u9", NetNS: 41}, podidentity.Mismatch)
	n.not(podidentity.Query{Sandbox: "s9", NetNS: 41}, podidentity.Mismatch)
	n.not(podidentity.Query{UID: "u9", Sandbox: "s1"}, podidentity.Mismatch)
	n.not(podidentity.Query{UID: "u9", Container: "s1"}, podidentity.Mismatch)
	n.not(podidentity.Query{Sandbox: "s9", Container: "s9", NetNS: 41}, podidentity.Mismatch)
}

// It may be an application's: that of a sandbox decides, and any other is as if
// it had not been given.
func TestContainerThatIsNoSandboxContradictsNothing(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
	n.Put(cri, sandbox("s2", "u2", "cart-0", 42, "10.0.0.2"), false)
	q := byAddr("10.0.0.1")
	q.Container = "app"
	n.found(q, "web-0")
	n.found(podidentity.Query{Container: "app", NetNS: 41}, "web-0")
	q.Container = "s2"
	n.found(q, "cart-0")
	n.not(podidentity.Query{Container: "app"}, podidentity.Unknown)
	n.not(podidentity.Query{UID: "u9", Container: "app", NetNS: 41}, podidentity.Mismatch)
}

func TestUpdates(t *testing.T) {
	t.Run("a new address begins now and a lost one ends now", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, sandbox("s1", "u1", "web-0", 41), false)
		n.until(10)
		n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
		n.until(20)
		n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.2"), false)
		n.not(byAddrAt("10.0.0.1", at(5)), podidentity.Unknown)
		n.found(byAddrAt("10.0.0.1", at(15)), "web-0")
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.not(byAddrAt("10.0.0.2", at(15)), podidentity.Unknown)
		n.found(byAddr("10.0.0.2"), "web-0")
		n.found(podidentity.Query{NetNS: 41, At: at(5)}, "web-0")
		n.until(90)
		n.not(byAddrAt("10.0.0.1", at(15)), podidentity.Unknown)
		n.found(podidentity.Query{NetNS: 41, At: at(5)}, "web-0")
		require.Equal(t, 1, n.Pods())
	})
	t.Run("labels are seen at once", func(t *testing.T) {
		n := newNode(t)
		r := sandbox("s1", "u1", "web-0", 41, "10.0.0.1")
		r.Identity.Labels = map[string]string{"v": "1"}
		n.Put(cri, r, false)
		before := n.found(byAddr("10.0.0.1"), "web-0")
		r.Identity.Labels = map[string]string{"v": "2"}
		n.Put(cri, r, false)
		require.Equal(t, "2", n.found(byAddr("10.0.0.1"), "web-0").Labels["v"])
		require.Equal(t, "1", before.Labels["v"], "what was handed out does not change")
	})
	t.Run("a UID learnt later joins the pod of that UID", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, podidentity.Record{Owner: "u1", Identity: podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u1"}}, false)
		n.Put(cri, sandbox("s1", "", "web-0", 41, "10.0.0.1"), false)
		require.Equal(t, 2, n.Pods())
		n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
		require.Equal(t, 1, n.Pods())
		require.Equal(t, "u1", n.found(byAddr("10.0.0.1"), "web-0").UID)
	})
	t.Run("another name is another pod", func(t *testing.T) {
		n := newNode(t)
		n.Put(pushed, sandbox("web", "", "a", 0, "10.0.0.1"), true)
		n.until(10)
		n.Put(pushed, sandbox("web", "", "b", 0, "10.0.0.1"), true)
		n.found(byAddr("10.0.0.1"), "b")
		n.found(byAddrAt("10.0.0.1", at(5)), "a")
		n.found(podidentity.Query{Sandbox: "web", At: at(5)}, "a")
	})
}

func TestMissesAreSignalledOnceForEachListen(t *testing.T) {
	n := newNode(t)
	n.Resolve(byAddr("10.0.0.1"))
	require.Empty(t, n.Missed(), "nobody listens")
	n.Listen()
	for range 10 {
		n.Resolve(byAddr("10.0.0.1"))
	}
	require.Len(t, n.Missed(), 1)
	<-n.Missed()
	n.Resolve(byAddr("10.0.0.1"))
	require.Empty(t, n.Missed())
	require.EqualValues(t, 12, n.Lookups(podidentity.Unknown))
	require.Zero(t, n.Lookups(podidentity.Found))
}
