// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// restart returns a cache that begins with what n knew at at(seconds).
func (n *node) restart(seconds float64) *node {
	n.t.Helper()
	saved := slices.Collect(n.Entries)
	for i := range saved {
		if saved[i].Sure.IsZero() {
			saved[i].Sure = n.clock.now()
		}
	}
	next := newNode(n.t)
	next.clock.pass(at(seconds).Sub(next.clock.now()))
	next.Restore(saved)
	return next
}

func lone(name, uid, sandbox, addr string) podidentity.Record {
	r := podidentity.Record{
		Owner: sandbox, Sandbox: sandbox, Identity: podidentity.Identity{Name: name, Namespace: "shop", UID: uid},
		Addresses: addrs(addr), Begin: at(1),
	}
	if r.Owner == "" {
		r.Owner = uid
	}
	return r
}

// before is a node that was stopped at at(10): cri and k8s knew web-0.
func before(t *testing.T) *node {
	n := newNode(t)
	n.until(2)
	r := lone("web-0", "u0", "s0", "10.0.0.1")
	r.NetNS, r.HNSEndpoints = 4026532001, []string{"3EAD1B4E-6B22-4C4F-9B0D-0D0B7B2F9F01"}
	r.Identity.Labels = map[string]string{"app": "web"}
	r.Addresses = addrs("10.0.0.1", "fd00::1")
	n.Put(cri, r, false)
	n.Put(k8s, lone("web-0", "u0", "", "10.0.0.1"), false)
	n.until(10)
	return n
}

func TestRestoredAnswersAtOnce(t *testing.T) {
	n := before(t).restart(20)
	id := n.found(byAddr("10.0.0.1"), "web-0")
	require.Equal(t, podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u0", Labels: map[string]string{"app": "web"}}, *id)
	n.found(byAddr("fd00::1"), "web-0")
	n.found(podidentity.Query{NetNS: 4026532001}, "web-0")
	n.found(podidentity.Query{HNSEndpoint: "{3ead1b4e-6b22-4c4f-9b0d-0d0b7b2f9f01}"}, "web-0")
	n.found(podidentity.Query{Sandbox: "s0"}, "web-0")
	n.found(podidentity.Query{UID: "u0"}, "web-0")
	require.Equal(t, 1, n.Pods())
	require.Equal(t, 1, n.Unconfirmed(cri))
	require.Equal(t, 1, n.Unconfirmed(k8s))
}

func TestRestoredIsConfirmedByItsSource(t *testing.T) {
	old := before(t)
	n := old.restart(20)
	r := slices.Collect(old.Entries)[0].Record
	r.Begin = at(1)
	n.Put(cri, r, false)
	require.Zero(t, n.Unconfirmed(cri))
	n.Confirm(cri)
	n.found(byAddr("10.0.0.1"), "web-0")
	q := byAddr("fd00::1")
	q.At = at(15) // it held it all the time
	n.found(q, "web-0")
	n.End(cri, "s0", at(30), false)
	n.Confirm(k8s)
	n.not(byAddr("10.0.0.1"), podidentity.Ended)
}

func TestUnconfirmedEndsWhenItsSourceSyncs(t *testing.T) {
	for name, sync := range map[string]func(*node, int){
		"with a list":     func(n *node, source int) { n.Replace(source, nil, at(20)) },
		"without a list":  func(n *node, source int) { n.Confirm(source) },
		"with an old end": func(n *node, source int) { n.End(source, map[int]string{cri: "s0", k8s: "u0"}[source], at(1), true) },
	} {
		t.Run(name, func(t *testing.T) {
			n := before(t).restart(20)
			sync(n, cri)
			if name != "with an old end" { // that one is about the sandbox, in every source
				n.found(byAddr("10.0.0.1"), "web-0") // k8s has not spoken yet
			}
			sync(n, k8s)
			n.not(byAddr("10.0.0.1"), podidentity.Ended)
			q := byAddr("10.0.0.1")
			q.At = at(9)
			if name != "with an old end" {
				n.found(q, "web-0") // as long as it was known to hold
			}
			q.At = at(11)
			n.not(q, podidentity.Ended)
		})
	}
}

func TestFreshWinsOverUnconfirmed(t *testing.T) {
	for name, tt := range map[string]struct {
		fresh podidentity.Record
		want  string // whose the address is then; empty is nobody's
	}{
		"another uid":              {lone("web-1", "u1", "s1", "10.0.0.1"), "web-1"},
		"another uid, same name":   {lone("web-0", "u1", "s1", "10.0.0.1"), "web-0"},
		"another name only":        {lone("web-1", "", "", "10.0.0.1"), "web-1"},
		"another name, same ids":   {lone("web-1", "u0", "s0", "10.0.0.1"), "web-1"},
		"same name, no uid":        {lone("web-0", "", "", "10.0.0.1"), "web-0"},
		"another sandbox, no uid":  {lone("web-1", "", "s1", "10.0.0.1"), "web-1"},
		"no name, another sandbox": {lone("", "", "s1", "10.0.0.1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.fresh.Begin = at(12)
			if tt.fresh.Owner == "" {
				tt.fresh.Owner = tt.fresh.Identity.Name
			}
			if tt.fresh.Identity.Name == "" {
				tt.fresh.Identity.Namespace = ""
			}
			n := before(t).restart(20)
			n.Put(file, tt.fresh, false)
			if tt.want == "" {
				n.not(byAddr("10.0.0.1"), podidentity.Ended)
			} else {
				id := n.found(byAddr("10.0.0.1"), tt.want)
				require.Equal(t, tt.fresh.Identity.UID, id.UID)
			}
			// Between the last word of the old process and the new pod's begin it was nobody's.
			q := byAddr("10.0.0.1")
			q.At = at(11)
			n.not(q, podidentity.Ended)
			require.Zero(t, n.Unconfirmed(cri))
		})
	}
}

func TestFreshOfTheSamePodJoinsUnconfirmed(t *testing.T) {
	n := before(t).restart(20)
	n.Put(file, lone("web-0", "u0", "", "10.0.0.1"), false)
	require.Equal(t, 1, n.Unconfirmed(cri))
	n.found(byAddr("fd00::1"), "web-0")
	require.Equal(t, 1, n.Pods())
	n.Confirm(cri)
	n.Confirm(k8s)
	n.found(byAddr("10.0.0.1"), "web-0") // file's own word
	n.not(byAddr("fd00::1"), podidentity.Ended)
}

func TestChangedKeysAreNotConfirmed(t *testing.T) {
	n := before(t).restart(20)
	n.Put(cri, lone("web-0", "u0", "s0", "10.0.0.2"), false)
	n.Confirm(cri)
	n.Confirm(k8s)
	n.found(byAddr("10.0.0.2"), "web-0")
	n.not(byAddr("10.0.0.1"), podidentity.Ended)
	n.not(byAddr("fd00::1"), podidentity.Ended)
	n.not(podidentity.Query{NetNS: 4026532001}, podidentity.Ended)
	n.found(podidentity.Query{UID: "u0"}, "web-0")
}

func TestRestartTwiceDoesNotMakeYounger(t *testing.T) {
	n := before(t).restart(20).restart(40)
	require.Equal(t, 1, n.Unconfirmed(cri))
	n.Confirm(cri)
	n.Confirm(k8s)
	q := byAddr("10.0.0.1")
	q.At = at(11)
	n.not(q, podidentity.Ended)
}

// An address that a pod got later than the rest is not its own from the start.
func TestRestoredAddressBeginsWhenItWasGiven(t *testing.T) {
	n := newNode(t)
	n.until(2)
	r := lone("web-0", "u0", "s0", "10.0.0.1")
	n.Put(cri, r, false)
	n.until(5)
	r.Addresses = addrs("10.0.0.1", "10.0.0.9")
	n.Put(cri, r, false)
	n.until(10)
	n = n.restart(20)
	q := byAddr("10.0.0.9")
	q.At = at(3)
	n.not(q, podidentity.Unknown)
	q.At = at(6)
	n.found(q, "web-0")
}

func TestRestoredWithAClockThatWasSetBack(t *testing.T) {
	n := before(t).restart(5) // saved at at(10), which has not come yet
	n.found(byAddr("10.0.0.1"), "web-0")
	n.Confirm(cri)
	n.Confirm(k8s)
	n.not(byAddr("10.0.0.1"), podidentity.Ended)
}

func TestEntriesChange(t *testing.T) {
	n := newNode(t)
	var last uint64
	changed := func(want bool) {
		t.Helper()
		now := n.Changes()
		require.Equal(t, want, now != last)
		last = now
	}
	changed(false)
	r := lone("web-0", "u0", "s0", "10.0.0.1")
	n.Put(cri, r, false)
	changed(true)
	n.Replace(cri, []podidentity.Record{r}, time.Time{})
	changed(false)
	r.Identity.Labels = map[string]string{"app": "web"}
	n.Put(cri, r, false)
	changed(true)
	r.Addresses = addrs("10.0.0.2")
	n.Put(cri, r, false)
	changed(true)
	n.End(cri, "s0", time.Time{}, false)
	changed(true)
	n.End(cri, "s0", time.Time{}, false)
	changed(false)
}
