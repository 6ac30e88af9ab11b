// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestDeadSandbox(t *testing.T) {
	fromCRI := sandbox("s1", "u1", "web-0", 41, "10.0.0.1")
	fromFile := sandbox("s1", "", "web-0", 0, "10.0.0.1")
	fromK8s := podidentity.Record{Owner: "u1", Addresses: addrs("10.0.0.1"), Identity: podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u1"}}

	t.Run("is dead in every source", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.Put(file, fromFile, false)
		n.until(10)
		n.End(cri, "s1", time.Time{}, true)
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.found(byAddrAt("10.0.0.1", at(5)), "web-0")
		require.Zero(t, n.Pods())
	})
	t.Run("stays dead for as long as another source lists it", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.Replace(file, []podidentity.Record{fromFile}, time.Time{})
		n.End(cri, "s1", time.Time{}, true)
		for s := 5.0; s < 600; s += 5 {
			n.until(s)
			n.Replace(file, []podidentity.Record{fromFile}, time.Time{})
			require.Zero(t, n.Pods(), "after %g s", s)
		}
		n.not(byAddr("10.0.0.1"), podidentity.Unknown)
	})
	t.Run("is dead to a source that lists it for the first time", func(t *testing.T) {
		n := newNode(t)
		n.End(cri, "s1", time.Time{}, true) // it was dead when the cri source came
		n.Put(file, fromFile, false)
		n.not(byAddr("10.0.0.1"), podidentity.Unknown)
		n.until(50)
		n.End(cri, "s1", time.Time{}, true) // still listed, and still dead
		n.until(100)
		n.Replace(file, []podidentity.Record{fromFile}, time.Time{})
		n.not(byAddr("10.0.0.1"), podidentity.Unknown)
	})
	t.Run("stays dead for a while where nothing ended is remembered", func(t *testing.T) {
		n := newNode(t)
		n.Cache = New(numSources, 0, n.clock.read)
		n.Put(cri, fromCRI, false)
		n.End(cri, "s1", time.Time{}, true)
		n.until(leastBurial.Seconds() - 1)
		n.Put(file, fromFile, false)
		n.not(byAddr("10.0.0.1"), podidentity.Unknown)
	})
	t.Run("does not end a newer sandbox of the pod", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.Put(cri, sandbox("s2", "u1", "web-0", 42, "10.0.0.2"), false)
		require.Equal(t, 1, n.Pods())
		n.End(cri, "s1", time.Time{}, true)
		n.found(byAddr("10.0.0.2"), "web-0")
		n.found(podidentity.Query{UID: "u1"}, "web-0")
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
	})
	t.Run("takes its address from what the API server still says of the pod", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, fromK8s, false)
		n.Put(cri, fromCRI, false)
		n.until(10)
		n.End(cri, "s1", time.Time{}, true)
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.found(podidentity.Query{UID: "u1"}, "web-0") // the pod lives on, without an address
		n.Put(k8s, fromK8s, false)                     // a resync
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.Put(cri, sandbox("s2", "u2", "other", 42, "10.0.0.1"), false)
		n.found(byAddr("10.0.0.1"), "other")
		moved := fromK8s
		moved.Addresses = addrs("10.0.0.9")
		n.Put(k8s, moved, false)
		n.found(byAddr("10.0.0.9"), "web-0")
		n.End(cri, "s2", time.Time{}, true)
		n.until(20)
		n.Put(k8s, fromK8s, false) // given again, or late news of the dead sandbox
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.Put(cri, sandbox("s3", "u1", "web-0", 43, "10.0.0.1"), false)
		n.found(byAddr("10.0.0.1"), "web-0")
		n.End(cri, "s3", time.Time{}, false)
		n.Put(k8s, moved, false)
		n.until(90)
		n.Put(k8s, fromK8s, false) // no news is as late as this
		n.found(byAddr("10.0.0.1"), "web-0")
	})
	t.Run("had the address that the API server tells of only later", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.until(10)
		n.End(cri, "s1", time.Time{}, true)
		n.Put(k8s, fromK8s, false)
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.found(podidentity.Query{UID: "u1"}, "web-0")
		n.Put(k8s, fromK8s, false) // a resync
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		later := fromK8s // the same name, but not the same pod
		later.Owner, later.Identity.UID = "u2", "u2"
		n.Put(k8s, later, false)
		require.Equal(t, "u2", n.found(byAddr("10.0.0.1"), "web-0").UID)
	})
	t.Run("had the address that a file tells of only later", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, fromK8s, false)
		n.until(10)
		n.End(cri, "s1", at(8), true) // nobody knows yet whose it was
		n.found(byAddr("10.0.0.1"), "web-0")
		n.Put(file, fromFile, false)
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.not(byAddrAt("10.0.0.1", at(9)), podidentity.Ended)
		n.found(byAddrAt("10.0.0.1", at(7)), "web-0")
	})
	t.Run("died when the exact end says, for those who lost it later, too", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, fromK8s, false)
		n.Replace(file, []podidentity.Record{fromFile}, time.Time{})
		n.Put(cri, fromCRI, false)
		n.until(10)
		n.Replace(file, nil, time.Time{})
		moved := fromK8s
		moved.Addresses = addrs("10.0.0.9")
		n.Put(k8s, moved, false)
		n.found(byAddrAt("10.0.0.1", at(9)), "web-0")
		n.End(cri, "s1", at(8), true)
		n.not(byAddrAt("10.0.0.1", at(9)), podidentity.Ended)
		n.found(byAddrAt("10.0.0.1", at(7)), "web-0")
		n.End(cri, "s1", at(12), true) // says it again at every list
		n.not(byAddrAt("10.0.0.1", at(9)), podidentity.Ended)
		n.found(byAddr("10.0.0.9"), "web-0")
	})
	t.Run("is not taken for a sandbox of another pod of the name", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		next := fromK8s
		next.Owner, next.Identity.UID = "u2", "u2"
		n.Put(k8s, next, false)
		n.End(cri, "s1", time.Time{}, true)
		require.Equal(t, "u2", n.found(byAddr("10.0.0.1"), "web-0").UID)
	})
	t.Run("can be begun again by who saw it die", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.End(cri, "s1", time.Time{}, true)
		n.until(10)
		n.Put(cri, fromCRI, false)
		n.found(byAddr("10.0.0.1"), "web-0")
		n.Put(file, fromFile, false)
		require.Equal(t, 1, n.Pods())
	})
	t.Run("can be begun again at first hand, and after its death", func(t *testing.T) {
		n := newNode(t)
		n.End(cri, "s1", time.Time{}, true)
		n.until(10)
		n.Put(pushed, fromCRI, true)
		n.found(byAddr("10.0.0.1"), "web-0")
		n.End(pushed, "s1", time.Time{}, true)
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
		n.until(20)
		n.Put(file, begin(fromFile, at(15)), false)
		n.found(byAddr("10.0.0.1"), "web-0")
		n.Put(cri, begin(fromCRI, at(5)), false)
		require.Equal(t, 1, n.Pods(), "an old listing of the dead one")
		require.Empty(t, n.found(byAddr("10.0.0.1"), "web-0").UID)
	})
	t.Run("is only lost, not dead, when a source merely leaves it out", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.Replace(file, []podidentity.Record{fromFile}, time.Time{})
		n.Replace(file, nil, time.Time{})
		n.found(byAddr("10.0.0.1"), "web-0")
		n.Replace(file, []podidentity.Record{fromFile}, time.Time{})
		n.End(cri, "s1", time.Time{}, false)
		n.found(byAddr("10.0.0.1"), "web-0")
	})
}

func TestLateEventsOfAReusedOwnerName(t *testing.T) {
	n := newNode(t)
	web := sandbox("web", "", "web", 0, "10.0.0.1")
	n.Put(pushed, begin(web, at(0)), true)
	n.until(10)
	n.End(pushed, "web", at(10), true)
	n.until(12)
	n.Put(pushed, begin(web, at(12)), true)
	n.End(pushed, "web", at(10), true) // comes twice, and late
	n.found(byAddr("10.0.0.1"), "web")
	n.not(byAddrAt("10.0.0.1", at(11)), podidentity.Ended)
	n.End(pushed, "nobody", time.Time{}, false)
	n.End(pushed, "web", at(99), true) // no end lies in the future
	n.not(byAddr("10.0.0.1"), podidentity.Ended)
	n.not(byAddrAt("10.0.0.1", at(13)), podidentity.Ended)
}

// Another source tells late of the death of a sandbox whose id is in use again.
func TestLateEndFromAnotherSourceSparesTheNextLife(t *testing.T) {
	n := newNode(t)
	web := sandbox("web", "", "web", 0, "10.0.0.1")
	n.Put(pushed, begin(web, at(0)), true)
	n.until(20)
	n.End(pushed, "web", at(20), true)
	n.until(25)
	n.Put(pushed, begin(web, at(25)), true)
	n.End(cri, "web", at(15), true)
	n.found(byAddr("10.0.0.1"), "web")
	n.found(podidentity.Query{Sandbox: "web"}, "web")
	n.not(byAddrAt("10.0.0.1", at(17)), podidentity.Ended)
	n.found(byAddrAt("10.0.0.1", at(14)), "web")
}

func TestEndBeforeTheBeginOfAUID(t *testing.T) {
	// The API server's times are whole seconds: a short life can end before it
	// begins.
	n := newNode(t)
	n.until(12)
	n.Put(k8s, podidentity.Record{Owner: "u1", Begin: at(11), Addresses: addrs("10.0.0.1"), Identity: podidentity.Identity{Name: "job", UID: "u1"}}, false)
	n.End(k8s, "u1", at(10), true)
	n.not(byAddr("10.0.0.1"), podidentity.Ended)
	require.Zero(t, n.Pods())
}

func TestReplaceEndsBeforeItBegins(t *testing.T) {
	n := newNode(t)
	n.Replace(cri, []podidentity.Record{sandbox("s1", "u1", "old", 41, "10.0.0.1")}, time.Time{})
	n.until(10)
	n.Replace(cri, []podidentity.Record{sandbox("s2", "u2", "new", 42, "10.0.0.1")}, at(9))
	n.found(byAddr("10.0.0.1"), "new")
	n.found(byAddrAt("10.0.0.1", at(8.9)), "old")
	n.found(byAddrAt("10.0.0.1", at(9)), "new")
}

func TestReturnAfterAbsence(t *testing.T) {
	t.Run("without a begin leaves a gap", func(t *testing.T) {
		n := newNode(t)
		r := sandbox("s1", "u1", "web-0", 41, "10.0.0.1")
		n.Replace(file, []podidentity.Record{r}, time.Time{})
		n.until(10)
		n.Replace(file, nil, time.Time{})
		n.until(20)
		n.Replace(file, []podidentity.Record{r}, time.Time{})
		n.found(byAddrAt("10.0.0.1", at(5)), "web-0")
		n.not(byAddrAt("10.0.0.1", at(15)), podidentity.Ended)
		n.found(byAddr("10.0.0.1"), "web-0")
	})
	t.Run("with a begin there was none", func(t *testing.T) {
		n := newNode(t)
		r := begin(sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), at(0))
		n.Replace(file, []podidentity.Record{r}, time.Time{})
		n.until(10)
		n.Replace(file, nil, time.Time{})
		n.until(20)
		n.Replace(file, []podidentity.Record{r}, time.Time{})
		n.found(byAddrAt("10.0.0.1", at(5)), "web-0")
		n.found(byAddrAt("10.0.0.1", at(15)), "web-0")
	})
}

func TestClockSteps(t *testing.T) {
	t.Run("a begin in the future is now", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, begin(sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), at(3600)), false)
		n.found(byAddrAt("10.0.0.1", at(0)), "web-0")
	})
	t.Run("a list from the future is from now", func(t *testing.T) {
		n := newNode(t)
		n.Replace(cri, []podidentity.Record{sandbox("s1", "u1", "web-0", 41, "10.0.0.1")}, at(3600))
		n.found(byAddrAt("10.0.0.1", at(0)), "web-0")
		n.until(10)
		n.Replace(cri, nil, at(3600))
		n.not(byAddrAt("10.0.0.1", at(10)), podidentity.Ended)
	})
	t.Run("back: live pods stay, what ended is forgotten", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, begin(sandbox("s1", "u1", "first", 41, "10.0.0.1"), at(0)), false)
		n.Put(cri, begin(sandbox("s2", "u2", "web-0", 42, "10.0.0.2"), at(0)), false)
		n.until(10)
		n.End(cri, "s1", time.Time{}, true)
		n.clock.set(-time.Hour)
		n.Expire(time.Second)
		now := n.clock.now()
		n.found(byAddrAt("10.0.0.2", now), "web-0")
		n.found(byAddr("10.0.0.2"), "web-0")
		n.not(byAddrAt("10.0.0.1", now), podidentity.Unknown)
		n.Put(cri, sandbox("s3", "u3", "second", 43, "10.0.0.1"), false)
		n.found(byAddrAt("10.0.0.1", now), "second")
		n.End(cri, "s2", time.Time{}, true)
		n.not(byAddr("10.0.0.2"), podidentity.Ended)
	})
	t.Run("back: a sandbox's id can be used again", func(t *testing.T) {
		for name, wait := range map[string]time.Duration{"while it is buried": time.Second, "while its old listing is known": 2 * leastBurial} {
			t.Run(name, func(t *testing.T) {
				n := newNode(t)
				n.Put(file, sandbox("web", "", "old", 0, "10.0.0.1"), false)
				n.until(10)
				n.End(cri, "web", time.Time{}, true)
				n.clock.set(-time.Hour)
				n.clock.pass(wait)
				n.Expire(time.Second)
				n.clock.pass(time.Second)
				n.Put(file, begin(sandbox("web", "", "new", 0, "10.0.0.1"), n.clock.now()), false)
				n.found(byAddr("10.0.0.1"), "new")
			})
		}
	})
	t.Run("back: what was restored was known to hold until then", func(t *testing.T) {
		n := before(t).restart(20)
		n.clock.set(-time.Hour)
		n.Expire(time.Second)
		n.Confirm(cri)
		n.Confirm(k8s)
		n.clock.pass(5 * time.Second)
		n.not(byAddrAt("10.0.0.1", n.clock.now()), podidentity.Ended)
	})
	t.Run("forward: the grace period lasts as long as before", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
		n.until(10)
		n.End(cri, "s1", time.Time{}, true)
		n.clock.set(time.Hour)
		n.Expire(time.Second)
		n.found(byAddrAt("10.0.0.1", at(5)), "web-0")
		n.clock.pass(grace)
		n.Expire(time.Second)
		n.not(byAddrAt("10.0.0.1", at(5)), podidentity.Unknown)
	})
}

func TestExpireSaysWhenToComeBack(t *testing.T) {
	n := newNode(t)
	require.Equal(t, time.Hour, n.Expire(time.Hour))
	n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
	n.End(cri, "s1", time.Time{}, false)
	n.clock.pass(grace - time.Second)
	require.Equal(t, time.Second, n.Expire(time.Hour))
	n.clock.pass(time.Second)
	require.Equal(t, time.Hour, n.Expire(time.Hour))
}

// The churn audit found it (sources late, seed 1): the exact end that the API
// server told at last did not reach the address that the sandbox's end had taken.
func TestLateExactEndReachesAReleasedAddress(t *testing.T) {
	n := newNode(t)
	n.Put(k8s, podidentity.Record{Owner: "u1", Identity: podidentity.Identity{Name: "web-0", UID: "u1"}, Addresses: addrs("10.0.0.1")}, false)
	n.until(6)
	n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
	n.until(10)
	n.End(cri, "s1", time.Time{}, true)
	n.found(byAddrAt("10.0.0.1", at(5.5)), "web-0")
	n.End(k8s, "u1", at(5), true)
	n.not(byAddrAt("10.0.0.1", at(5.5)), podidentity.Ended)
}
