// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// TestReadersBesideWriters lets sources begin, update, replace and end pods
// while readers look keys up. Whoever has a key is named after it, so that a
// reader can tell a wrong name at any moment.
func TestReadersBesideWriters(t *testing.T) {
	const (
		keys    = 20
		changes = 3000
	)
	c := New(numSources, time.Millisecond, SystemClock())
	record := func(source, key, life int) podidentity.Record {
		r := sandbox(fmt.Sprintf("s%d.%d", key, life), fmt.Sprintf("u%d.%d", key, life), fmt.Sprintf("pod-%d.%d", key, life),
			uint64(key+1), fmt.Sprintf("10.0.0.%d", key+1), fmt.Sprintf("fd00::%d", key+1))
		r.Identity.Labels = map[string]string{"source": fmt.Sprint(source)}
		if source == k8s {
			r.Owner, r.Sandbox, r.NetNS = r.Identity.UID, "", 0
		}
		return r
	}
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for _, source := range []int{cri, k8s, file} {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(source), 0))
			for i := range changes {
				key, life := rnd.IntN(keys), i/200
				r := record(source, key, life)
				switch rnd.IntN(5) {
				case 0:
					c.End(source, r.Owner, time.Time{}, source == cri)
				case 1:
					c.End(source, record(source, key, life-1).Owner, time.Time{}, true)
				case 2:
					r.Addresses = r.Addresses[:1]
					c.Put(source, r, false)
				case 3:
					if i%50 == 0 {
						c.Replace(source, []podidentity.Record{r, record(source, (key+1)%keys, life)}, time.Time{})
					}
				default:
					c.Put(source, r, false)
				}
				c.Expire(time.Second)
			}
		})
	}
	var found atomic.Int64
	for range 2 {
		readers.Go(func() {
			for i := 0; !done.Load(); i++ {
				key := i % keys
				all := record(cri, key, 0)
				q := podidentity.Query{NetNS: all.NetNS}
				switch i % 3 {
				case 0:
					q = podidentity.Query{Address: all.Addresses[0]}
				case 1:
					q = podidentity.Query{Address: all.Addresses[1], At: time.Now()}
				}
				id, outcome := c.Resolve(q)
				if outcome != podidentity.Found {
					assert.Nil(t, id)
					continue
				}
				found.Add(1)
				if !strings.HasPrefix(id.Name, fmt.Sprintf("pod-%d.", key)) || id.Labels["source"] == "" {
					assert.Fail(t, "wrong name", "%+v for %+v", id, q)
					return
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	require.NotZero(t, found.Load())
	for source := range numSources {
		c.Replace(source, nil, time.Time{})
	}
	require.Zero(t, c.Pods())
}

// TestResolveDoesNotAllocate covers every outcome and kind of key.
func TestResolveDoesNotAllocate(t *testing.T) {
	n := newNode(t)
	r := sandbox("s1", "u1", "web-0", 41, "10.0.0.1", "fd00::1")
	r.HNSEndpoints = []string{"41d40000-820a-406a-ade6-6b0400000063"}
	n.Put(cri, r, false)
	n.Put(cri, sandbox("s2", "u2", "a", 0, "10.0.0.2"), false)
	n.Put(k8s, sandbox("s3", "u3", "b", 0, "10.0.0.2"), false)
	n.Put(cri, sandbox("s4", "u4", "c", 0, "10.0.0.4"), false)
	n.until(1)
	n.End(cri, "s4", time.Time{}, true)
	n.Listen()
	for want, queries := range map[podidentity.Outcome][]podidentity.Query{
		podidentity.Found: {
			{UID: "u1"}, {Sandbox: "s1"}, {HNSEndpoint: "41D40000-820A-406A-ADE6-6B0400000063"}, {NetNS: 41},
			byAddr("10.0.0.1"), byAddr("fd00::1"), byAddr("::ffff:10.0.0.1"), byAddr("fd00::1%eth0"), byAddrAt("10.0.0.4", at(0.5)),
		},
		podidentity.Unknown:   {byAddr("10.9.9.9"), {}, {UID: "nobody", Sandbox: "none", NetNS: 9}},
		podidentity.Ambiguous: {byAddr("10.0.0.2")},
		podidentity.Ended:     {byAddr("10.0.0.4")},
		podidentity.Mismatch:  {{UID: "other", NetNS: 41}},
	} {
		for _, q := range queries {
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if _, outcome := n.Resolve(q); outcome != want {
					panic(fmt.Sprint(outcome, " for ", q))
				}
			}), "%v of %+v", want, q)
		}
	}
}
