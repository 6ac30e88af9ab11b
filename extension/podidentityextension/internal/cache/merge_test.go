// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestSourcesThatSeeTheSamePod(t *testing.T) {
	fromCRI := sandbox("s1", "u1", "web-0", 41, "10.0.0.1")
	fromCRI.Identity.Labels = map[string]string{"app": "web", "from": "cri"}
	fromK8s := podidentity.Record{Owner: "u1", Addresses: addrs("10.0.0.1", "fd00::1"), Identity: podidentity.Identity{
		Name: "web-0", Namespace: "shop", UID: "u1",
		Labels: map[string]string{"tier": "front", "from": "k8s"}, Annotations: map[string]string{"note": "x"},
	}}
	fromFile := podidentity.Record{
		Owner: "s1", Sandbox: "s1", HNSEndpoints: []string{"41d40000-820a-406a-ade6-6b0400000063"}, Addresses: addrs("10.0.0.1"),
		Identity: podidentity.Identity{Name: "web-0", Namespace: "shop"},
	}
	byName := podidentity.Record{
		Owner: "shop/web-0", Addresses: addrs("10.0.0.1", "10.9.9.9"),
		Identity: podidentity.Identity{Name: "web-0", Namespace: "shop", Labels: map[string]string{"rack": "7"}},
	}
	nameless := podidentity.Record{Owner: "s1", Sandbox: "s1", Addresses: addrs("10.0.0.7")}

	t.Run("are one pod, merged field by field", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, fromK8s, false)
		n.Put(cri, fromCRI, false)
		n.Put(file, fromFile, false)
		require.Equal(t, 1, n.Pods())
		want := podidentity.Identity{
			Name: "web-0", Namespace: "shop", UID: "u1",
			Labels:      map[string]string{"app": "web", "from": "cri", "tier": "front"},
			Annotations: map[string]string{"note": "x"},
		}
		for _, q := range []podidentity.Query{
			{UID: "u1"}, {Sandbox: "s1"}, {NetNS: 41}, byAddr("10.0.0.1"), byAddr("fd00::1"),
			{HNSEndpoint: "41d40000-820a-406a-ade6-6b0400000063"},
		} {
			require.Equal(t, want, *n.found(q, "web-0"))
		}
	})
	t.Run("by name and address where one has only a UID and one only a sandbox", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, fromK8s, false)
		n.Put(file, fromFile, false)
		require.Equal(t, 1, n.Pods())
		require.Equal(t, "u1", n.found(podidentity.Query{Sandbox: "s1"}, "web-0").UID)
	})
	t.Run("by name and address where one has neither", func(t *testing.T) {
		n := newNode(t)
		n.Put(file, byName, false)
		n.Put(cri, fromCRI, false)
		require.Equal(t, 1, n.Pods())
		id := n.found(byAddr("10.9.9.9"), "web-0")
		require.Equal(t, "u1", id.UID)
		require.Equal(t, "7", id.Labels["rack"])
	})
	t.Run("but not by the name alone", func(t *testing.T) {
		n := newNode(t)
		other := byName
		other.Addresses = addrs("10.9.9.9")
		n.Put(file, other, false)
		n.Put(cri, fromCRI, false)
		require.Equal(t, 2, n.Pods())
		require.Empty(t, n.found(byAddr("10.9.9.9"), "web-0").UID)
	})
	t.Run("and a sandbox without a name gets it by its id", func(t *testing.T) {
		n := newNode(t)
		n.Put(file, nameless, false)
		n.not(byAddr("10.0.0.7"), podidentity.Unknown)
		n.Put(cri, fromCRI, false)
		n.found(byAddr("10.0.0.7"), "web-0")
	})
	t.Run("and a sandbox without a name is no rival", func(t *testing.T) {
		n := newNode(t)
		rival := nameless
		rival.Owner, rival.Sandbox, rival.Addresses = "s2", "s2", addrs("10.0.0.1")
		n.Put(file, rival, false)
		n.Put(cri, fromCRI, false)
		n.found(byAddr("10.0.0.1"), "web-0")
	})
	t.Run("are united by a third that knows both", func(t *testing.T) {
		n := newNode(t)
		n.Put(k8s, podidentity.Record{Owner: "u1", Identity: fromK8s.Identity}, false)
		n.Put(file, nameless, false)
		require.Equal(t, 2, n.Pods())
		n.Put(cri, fromCRI, false)
		require.Equal(t, 1, n.Pods())
		require.Equal(t, "u1", n.found(byAddr("10.0.0.7"), "web-0").UID)
	})
	t.Run("end each for itself", func(t *testing.T) {
		n := newNode(t)
		n.Put(cri, fromCRI, false)
		n.Put(k8s, fromK8s, false)
		n.until(10)
		n.Replace(cri, nil, time.Time{}) // it lost the pod, or its memory
		n.found(byAddr("10.0.0.1"), "web-0")
		n.found(byAddr("fd00::1"), "web-0")
		n.not(podidentity.Query{Sandbox: "s1"}, podidentity.Ended)
		n.Replace(k8s, nil, time.Time{})
		n.not(byAddr("10.0.0.1"), podidentity.Ended)
	})
}

// A runtime has a copy of the labels from when the sandbox was made. The API server
// knows what was changed and taken away since.
func TestLabelsThatChange(t *testing.T) {
	for name, order := range map[string][2]int{"by default": {cri, k8s}, "by the precedence of a user": {k8s, cri}} {
		t.Run(name, func(t *testing.T) {
			runtime, api := order[0], order[1]
			n := newNode(t)
			n.Relabels(api)
			fromRuntime := sandbox("s1", "u1", "web-0", 41, "10.0.0.1")
			fromRuntime.Identity.Labels = map[string]string{"app": "old", "gone": "yes"}
			fromRuntime.Identity.Annotations = map[string]string{"note": "old"}
			n.Put(runtime, fromRuntime, false)
			require.Equal(t, map[string]string{"app": "old", "gone": "yes"}, n.found(byAddr("10.0.0.1"), "web-0").Labels)

			fromAPI := podidentity.Record{Owner: "u1", Addresses: addrs("10.0.0.1"), Identity: fromRuntime.Identity}
			n.Put(api, fromAPI, false)
			require.Equal(t, fromRuntime.Identity, *n.found(byAddr("10.0.0.1"), "web-0"))
			fromAPI.Identity.Labels = map[string]string{"app": "new", "added": "yes"}
			fromAPI.Identity.Annotations = nil
			n.Put(api, fromAPI, false)
			for _, q := range []podidentity.Query{byAddr("10.0.0.1"), {Sandbox: "s1"}, {UID: "u1"}} {
				id := n.found(q, "web-0")
				require.Equal(t, map[string]string{"app": "new", "added": "yes"}, id.Labels)
				require.Empty(t, id.Annotations)
			}

			n.End(api, "u1", time.Time{}, false) // it knows the pod no more
			require.Equal(t, map[string]string{"app": "old", "gone": "yes"}, n.found(byAddr("10.0.0.1"), "web-0").Labels)
		})
	}
}

// Static pods from one URL have the same UID on every node, and a manifest can
// state another pod's.
func TestPodsWithOneUID(t *testing.T) {
	n := newNode(t)
	for i, name := range []string{"etcd-n1", "etcd-n2"} {
		n.Put(k8s, podidentity.Record{
			Owner: name, Addresses: addrs([]string{"10.0.0.1", "10.0.0.2"}[i]),
			Identity: podidentity.Identity{Name: name, Namespace: "kube-system", UID: "u1"},
		}, false)
	}
	require.Equal(t, 2, n.Pods())
	n.found(byAddr("10.0.0.1"), "etcd-n1")
	n.found(byAddr("10.0.0.2"), "etcd-n2")
	n.not(podidentity.Query{UID: "u1"}, podidentity.Ambiguous)
	// Its data are either pod's, also those from when only one was known.
	n.not(podidentity.Query{UID: "u1", At: at(-5)}, podidentity.Ambiguous)
	n.End(k8s, "etcd-n2", time.Time{}, true)
	n.not(podidentity.Query{UID: "u1"}, podidentity.Ambiguous)
	n.until(2 * grace.Seconds())
	n.found(podidentity.Query{UID: "u1"}, "etcd-n1")
}

func TestSameNameWithAnotherUIDIsAnotherPod(t *testing.T) {
	n := newNode(t)
	one := podidentity.Record{Owner: "shop/web-0", Addresses: addrs("10.0.0.1"), Identity: podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u1"}}
	two := one
	two.Identity.UID = "u2"
	n.Put(k8s, one, false)
	n.until(10)
	n.Put(k8s, two, false)
	require.Equal(t, "u2", n.found(byAddr("10.0.0.1"), "web-0").UID)
	require.Equal(t, "u1", n.found(byAddrAt("10.0.0.1", at(5)), "web-0").UID)
	n.not(podidentity.Query{UID: "u1"}, podidentity.Ended)

	rival := one
	rival.Owner, rival.Identity.UID = "other", "u3"
	n.Put(k8s, rival, false)
	n.not(byAddr("10.0.0.1"), podidentity.Ambiguous)
	n.End(k8s, "shop/web-0", time.Time{}, true)
}

func TestNamesakesDataKeepsItsUID(t *testing.T) {
	// A list knows the pod by its name only and outlives it; the next pod of that
	// name takes the list's record over, but not the first one's past.
	n := newNode(t)
	n.Put(file, podidentity.Record{Owner: "shop/web-0", Addresses: addrs("10.0.0.1"), Identity: podidentity.Identity{Name: "web-0", Namespace: "shop"}}, false)
	n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1"), false)
	n.until(10)
	n.Replace(cri, nil, time.Time{})
	n.until(20)
	n.Put(cri, sandbox("s2", "u2", "web-0", 42, "10.0.0.1"), false)
	require.Equal(t, "u2", n.found(byAddr("10.0.0.1"), "web-0").UID)
	require.Equal(t, "u1", n.found(byAddrAt("10.0.0.1", at(5)), "web-0").UID)
}

// Nor when the file told of it first.
func TestNamesakesUIDIsNotGuessedEither(t *testing.T) {
	n := newNode(t)
	n.Put(file, sandbox("s1", "", "db-0", 0, "10.0.0.1"), false)
	n.Put(cri, sandbox("s2", "u2", "db-0", 42, "10.0.0.1"), false)
	require.Empty(t, n.found(byAddr("10.0.0.1"), "db-0").UID, "it can be another pod of that name")
}

// The churn audit found it (sources losing, one look-up in six million): a file
// that knows no UIDs tells of a StatefulSet's next pod, while the runtime's news of
// the last one's end is lost and the address is the same.
func TestNamesakesUIDIsNotGuessed(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "db-0", 41, "10.0.0.1"), false)
	require.Equal(t, "u1", n.found(byAddr("10.0.0.1"), "db-0").UID)
	n.Put(file, sandbox("s2", "", "db-0", 0, "10.0.0.1"), false)
	require.Empty(t, n.found(byAddr("10.0.0.1"), "db-0").UID, "it can be another pod of that name")
	n.Put(cri, sandbox("s2", "u2", "db-0", 42, "10.0.0.1"), false)
	n.not(byAddr("10.0.0.1"), podidentity.Ambiguous)
	n.End(cri, "s1", time.Time{}, true)
	require.Equal(t, "u2", n.found(byAddr("10.0.0.1"), "db-0").UID)
}
