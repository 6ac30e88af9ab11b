// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A restartedWorld is a node whose pods take addresses, namespaces and each
// other's names out of a small room, so that all are soon used again.
type restartedWorld struct {
	rng  *rand.Rand
	pods map[int]podidentity.Record // by address
	next int
}

const worldSize = 8

func (w *restartedWorld) change(now time.Time) {
	i := w.rng.IntN(worldSize)
	if _, lives := w.pods[i]; lives {
		delete(w.pods, i)
		return
	}
	w.next++
	w.pods[i] = podidentity.Record{
		Identity: podidentity.Identity{
			Name: fmt.Sprint("pod-", w.rng.IntN(3*worldSize)), Namespace: "shop", UID: fmt.Sprint("uid-", w.next),
		},
		Sandbox: fmt.Sprint("sandbox-", w.next), NetNS: uint64(1 + i),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}, Begin: now,
	}
}

// told is what a source says of a pod: cri all, k8s no sandbox and namespace,
// file no ids at all.
func told(source int, r podidentity.Record) podidentity.Record {
	switch source {
	case cri:
		r.Owner = r.Sandbox
	case k8s:
		r.Owner, r.Sandbox, r.NetNS = r.Identity.UID, "", 0
	default:
		r.Owner, r.Sandbox, r.NetNS = r.Identity.Namespace+"/"+r.Identity.Name+"/"+r.Addresses[0].String(), "", 0
		r.Identity.UID = ""
	}
	return r
}

// Whatever happened while the collector was away, and in whatever order the
// sources find out: once any of them has told of a pod, its keys are never
// another's, and once all have, every answer is the truth.
func TestRestoredNeverNamesWrongAgainstAFreshWord(t *testing.T) {
	confirmed, ousted := 0, 0
	for seed := range uint64(1000) {
		w := &restartedWorld{rng: rand.New(rand.NewPCG(seed, 1)), pods: map[int]podidentity.Record{}}
		n := newNode(t)
		second := 1.0
		for range 12 {
			n.until(second)
			w.change(at(second))
			second++
		}
		sources := []int{cri, k8s, file}
		for _, source := range sources {
			for _, r := range w.pods {
				n.Put(source, told(source, r), false)
			}
		}
		for range w.rng.IntN(2 * worldSize) { // while it is away
			second++
			w.change(at(second))
		}
		n = n.restart(second + 1)

		type word struct{ source, pod int }
		var words []word
		for _, source := range sources {
			for i := range w.pods {
				words = append(words, word{source, i})
			}
		}
		slices.SortFunc(words, func(a, b word) int { return 100*(a.source-b.source) + a.pod - b.pod })
		w.rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		fresh := map[int]bool{}
		for _, word := range words {
			before := n.Unconfirmed(cri) + n.Unconfirmed(k8s) + n.Unconfirmed(file)
			n.Put(word.source, told(word.source, w.pods[word.pod]), false)
			fresh[word.pod] = true
			switch before - n.Unconfirmed(cri) - n.Unconfirmed(k8s) - n.Unconfirmed(file) {
			case 0:
			case 1:
				confirmed++
			default:
				ousted++
			}
			for i := range fresh {
				for _, q := range []podidentity.Query{{Address: w.pods[i].Addresses[0]}, {NetNS: w.pods[i].NetNS}, {Sandbox: w.pods[i].Sandbox}} {
					id, outcome := n.Resolve(q)
					if outcome == podidentity.Found {
						require.Equal(t, w.pods[i].Identity.Name, id.Name, "seed %d, %+v", seed, q)
						require.Contains(t, []string{"", w.pods[i].Identity.UID}, id.UID, "seed %d, %+v", seed, q)
					}
					require.False(t, q.Address.IsValid() && outcome != podidentity.Found, "seed %d: %s of a live pod: %s", seed, q.Address, outcome)
				}
			}
		}
		for _, source := range sources {
			n.Confirm(source)
		}
		require.Empty(t, n.unsynced)
		for i := range worldSize {
			id, outcome := n.Resolve(podidentity.Query{Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
			if r, lives := w.pods[i]; lives {
				require.Equal(t, podidentity.Found, outcome, "seed %d", seed)
				require.Equal(t, r.Identity, *id, "seed %d", seed)
			} else {
				require.NotEqual(t, podidentity.Found, outcome, "seed %d: %v", seed, id)
			}
		}
	}
	require.Positive(t, confirmed)
	require.Positive(t, ousted)
}
