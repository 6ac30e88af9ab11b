// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// benchRecord is a dual-stack pod as CRI knows it: one of ten replicas with the
// labels that a Deployment gives them.
func benchRecord(i int) podidentity.Record {
	sandbox := fmt.Sprintf("%064x", i+1)
	v4, _ := netip.AddrFromSlice(binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i)+1))
	return podidentity.Record{
		Owner: sandbox, Sandbox: sandbox, NetNS: 4026532000 + uint64(i),
		Identity: podidentity.Identity{
			Name:      fmt.Sprintf("web-%d-7d4b9c6f5-%05x", i/10, i),
			Namespace: "shop",
			UID:       fmt.Sprintf("00000000-0000-4000-8000-%012x", i),
			Labels: map[string]string{
				"app": fmt.Sprintf("web-%d", i/10), "tier": "front", "pod-template-hash": "7d4b9c6f5",
			},
		},
		Addresses: []netip.Addr{v4, netip.MustParseAddr(fmt.Sprintf("fd00:10::%x:%x", i>>15, i&0x7fff+1))},
		Begin:     time.Unix(1_700_000_000, 0),
	}
}

// A churner ends pods and begins others on their addresses, 1,000 a second,
// until the benchmark ends.
func churn(b *testing.B, change func(i int)) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				change(i)
			}
		}
	})
	b.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}

// lockedMap is the common way: a map of addresses under a read-write lock, with
// neither times nor keys other than the address.
type lockedMap struct {
	mu   sync.RWMutex
	pods map[netip.Addr]*podidentity.Identity
}

func (m *lockedMap) put(r *podidentity.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range r.Addresses {
		m.pods[a] = &r.Identity
	}
}

func (m *lockedMap) get(a netip.Addr) *podidentity.Identity {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pods[a]
}

var sink *podidentity.Identity

// BenchmarkResolve measures look-ups of a node's pods while these and others,
// 1,000 in all, come and go: each is replaced on its address once a second.
func BenchmarkResolve(b *testing.B) {
	const all, pods = 1000, 250
	records := make([]podidentity.Record, all)
	for i := range records {
		records[i] = benchRecord(i)
	}
	cached := func(b *testing.B) *Cache {
		c := New(1, time.Second, SystemClock())
		for _, r := range records {
			c.Put(0, r, false)
		}
		churn(b, func(i int) {
			r := records[i%all]
			c.End(0, r.Owner, time.Time{}, false)
			r.Begin = time.Time{}
			c.Put(0, r, false)
			c.Expire(time.Second)
		})
		b.ReportAllocs()
		return c
	}
	at := time.Now().Add(time.Hour) // covered by live leases, as a point of now is

	b.Run("key=address/way=leases", func(b *testing.B) {
		c := cached(b)
		for i := 0; b.Loop(); i++ {
			sink, _ = c.Resolve(podidentity.Query{Address: records[i%pods].Addresses[0], At: at})
		}
	})
	b.Run("key=address6/way=leases", func(b *testing.B) {
		c := cached(b)
		for i := 0; b.Loop(); i++ {
			sink, _ = c.Resolve(podidentity.Query{Address: records[i%pods].Addresses[1], At: at})
		}
	})
	b.Run("key=address/way=rwmutex-map", func(b *testing.B) {
		m := &lockedMap{pods: map[netip.Addr]*podidentity.Identity{}}
		for i := range records {
			m.put(&records[i])
		}
		churn(b, func(i int) { m.put(&records[i%all]) })
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			sink = m.get(records[i%pods].Addresses[0])
		}
	})
	b.Run("key=netns/way=leases", func(b *testing.B) {
		c := cached(b)
		for i := 0; b.Loop(); i++ {
			r := &records[i%pods]
			sink, _ = c.Resolve(podidentity.Query{NetNS: r.NetNS, Address: r.Addresses[0], At: at})
		}
	})
	b.Run("key=sandbox/way=leases", func(b *testing.B) {
		c := cached(b)
		for i := 0; b.Loop(); i++ {
			r := &records[i%pods]
			sink, _ = c.Resolve(podidentity.Query{Sandbox: r.Sandbox, Address: r.Addresses[0], At: at})
		}
	})
	b.Run("key=address/way=leases/parallel", func(b *testing.B) {
		c := cached(b)
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				c.Resolve(podidentity.Query{Address: records[i%pods].Addresses[0], At: at})
			}
		})
	})
	b.Run("key=address/way=rwmutex-map/parallel", func(b *testing.B) {
		m := &lockedMap{pods: map[netip.Addr]*podidentity.Identity{}}
		for i := range records {
			m.put(&records[i])
		}
		churn(b, func(i int) { m.put(&records[i%all]) })
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				m.get(records[i%pods].Addresses[0])
			}
		})
	})
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHeapPerPod holds the cache to 1 KB a pod, strings included, and to nothing
// after the pods have gone.
func TestHeapPerPod(t *testing.T) {
	for _, pods := range []int{1_000, 4_000} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			before := heapInUse()
			clock := newFakeClock()
			c := New(2, time.Minute, clock.read)
			for i := range pods {
				c.Put(0, benchRecord(i), false)
			}
			perPod := float64(heapInUse()-before) / float64(pods)
			t.Logf("%.0f B of heap a pod", perPod)
			require.LessOrEqual(t, perPod, 1024.0)

			for i := range pods {
				c.End(0, benchRecord(i).Owner, time.Time{}, true)
			}
			clock.pass(2 * time.Minute)
			c.Expire(time.Second)
			require.Less(t, heapInUse(), before+uint64(pods)*40, "what is left is room in maps")
			runtime.KeepAlive(c)
		})
	}
}

// BenchmarkChange measures one pod that ends and begins again among others, and
// how the number of these matters.
func BenchmarkChange(b *testing.B) {
	for _, pods := range []int{250, 10_000, 150_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			clock := newFakeClock()
			c := New(1, time.Second, clock.read)
			for i := range pods {
				c.Put(0, benchRecord(i), false)
			}
			r := benchRecord(0)
			r.Begin = time.Time{}
			b.ReportAllocs()
			for b.Loop() {
				c.End(0, r.Owner, time.Time{}, true)
				c.Put(0, r, false)
				clock.pass(500 * time.Millisecond)
				c.Expire(time.Second)
			}
		})
	}
}
