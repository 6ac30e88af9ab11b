// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"golang.org/x/sys/unix"
)

var podCounts = []int{250, 10000}

// BenchmarkMetrics measures a component alone: batches are decoded from OTLP
// bytes with the timer stopped, a few at a time, and each is used once.
func BenchmarkMetrics(b *testing.B) {
	for _, c := range components {
		for _, n := range podCounts {
			for _, s := range []batch{
				{shape: OnResource, r: 1000, d: 10},
				{shape: OnResource, r: 100, d: 10},
				{shape: OnResource, r: 1, d: 10},
				{shape: OnResource, r: 1000, d: 10, misses: 1},
				{shape: OnPoint, r: 1, d: 10000},
				{shape: OnPoint, r: 1, d: 10000, misses: 1},
			} {
				if !c.can(s.shape) {
					continue
				}
				s.pods, s.key = n, c.Key
				for _, sdk := range []bool{true, false} {
					if !sdk && (n != 10000 || s.r != 1000 || s.misses > 0) {
						continue // no-op telemetry once only, as a comparison
					}
					b.Run(fmt.Sprintf("%s/pods=%d/at=%s/R=%d/D=%d/miss=%g/sdk=%t", c.Name, n, s.shape, s.r, s.d, s.misses, sdk), func(b *testing.B) {
						env := startEnv(b, fmt.Sprintf("bench%d", n), n)
						env.Telemetry = telemetry(sdk)
						run(b, c, env, s)
					})
				}
			}
		}
	}
}

func run(b *testing.B, c Component, env Env, s batch) {
	out := &sink{}
	p := c.Start(b, env, out)
	raw := s.build()
	ctx := context.Background()
	per := max(1, min(64, 4_000_000/len(raw)))
	if per > b.N && b.N > 0 {
		per = max(1, b.N)
	}
	ready := make([]pmetric.Metrics, 0, per)
	var m0, m1 runtime.MemStats
	var mallocs, bytes uint64
	var cpu time.Duration
	runtime.LockOSThread() // for threadCPU
	defer runtime.UnlockOSThread()
	b.ResetTimer()
	b.StopTimer()
	for done := 0; done < b.N; {
		k := min(per, b.N-done)
		ready = ready[:0]
		for range k {
			ready = append(ready, decode(raw))
		}
		runtime.GC()
		runtime.ReadMemStats(&m0)
		cpu -= threadCPU(b)
		b.StartTimer()
		for _, md := range ready {
			if err := p.ConsumeMetrics(ctx, md); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		cpu += threadCPU(b)
		runtime.ReadMemStats(&m1)
		mallocs += m1.Mallocs - m0.Mallocs
		bytes += m1.TotalAlloc - m0.TotalAlloc
		done += k
	}
	ns, n := float64(b.Elapsed().Nanoseconds()), float64(b.N)
	unit, per1 := "resource", n*float64(s.r)
	if s.shape == OnPoint {
		unit, per1 = "point", n*float64(s.r*s.d)
	}
	b.ReportMetric(ns/per1, "ns/"+unit)
	b.ReportMetric(float64(cpu.Nanoseconds())/per1, "cpu-ns/"+unit)
	b.ReportMetric(float64(mallocs)/per1, "allocs/"+unit)
	b.ReportMetric(float64(bytes)/per1, "B/"+unit)
}

// threadCPU is the processor time that the calling thread has used, which a
// busy machine does not inflate as it does the time on the clock.
func threadCPU(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestEnriches checks that each component really enriches what the benchmark
// gives it: every resource (or point) gets the name of its pod.
func TestEnriches(t *testing.T) {
	for _, c := range components {
		for _, shape := range c.Shapes {
			t.Run(c.Name+"/"+string(shape), func(t *testing.T) {
				const n = 100
				env := startEnv(t, "bench100", n)
				env.Telemetry = telemetry(true)
				out := &sink{keep: true}
				p := c.Start(t, env, out)
				s := batch{shape: shape, r: 50, d: 4, pods: n, key: c.Key}
				if err := p.ConsumeMetrics(context.Background(), decode(s.build())); err != nil {
					t.Fatal(err)
				}
				want := map[string]string{}
				for i := range n {
					want[podIP(i)] = podName(i)
				}
				points := 0
				for _, rm := range out.last.ResourceMetrics().All() {
					for _, sm := range rm.ScopeMetrics().All() {
						for _, m := range sm.Metrics().All() {
							for _, dp := range m.Sum().DataPoints().All() {
								points++
								at := dp.Attributes()
								if c.EnrichesResource {
									at = rm.Resource().Attributes()
								}
								ip, ok := at.Get(c.Key)
								if !ok {
									ip, ok = rm.Resource().Attributes().Get(c.Key)
								}
								if name := str(at); !ok || name == "" || name != want[ip.AsString()] {
									t.Fatalf("pod name %q (there is an IP: %v)", name, ok)
								}
								if v, ok := at.Get("k8s.pod.uid"); !ok || v.AsString() == "" {
									t.Fatal("no uid")
								}
							}
						}
					}
				}
				if points != s.r*s.d {
					t.Fatalf("%d points", points)
				}
			})
		}
	}
}

// BenchmarkHeap measures the heap that a started component keeps per known pod.
func BenchmarkHeap(b *testing.B) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what finalizers and pools let go of only now
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, c := range components {
		if !c.can(OnResource) {
			continue
		}
		for _, n := range podCounts {
			b.Run(fmt.Sprintf("%s/pods=%d", c.Name, n), func(b *testing.B) {
				env := startEnv(b, fmt.Sprintf("bench%d", n), n)
				env.Telemetry = telemetry(true)
				var kept int64
				started := make([]consumer.Metrics, 0, b.N)
				for b.Loop() {
					before := heap()
					started = append(started, c.Start(b, env, &sink{}))
					kept += int64(heap()) - int64(before)
				}
				b.ReportMetric(float64(kept)/float64(b.N)/float64(n), "heap-B/pod")
				runtime.KeepAlive(started)
			})
		}
	}
}
