// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"golang.org/x/sys/windows"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// held is what a process holds.
type held struct {
	heap       uint64 // live bytes
	goroutines int
	// next is the number of the handle that it would get next: the lowest that
	// is free. (Wine 8 doesn't count handles.)
	next windows.Handle
}

func holds(t testing.TB) held {
	t.Helper()
	var (
		m runtime.MemStats
		h held
	)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	h.heap, h.goroutines = m.HeapAlloc, runtime.NumGoroutine()
	var err error
	h.next, err = windows.CreateEvent(nil, 0, 0, nil)
	require.NoError(t, err)
	require.NoError(t, windows.CloseHandle(h.next))
	return h
}

// Nothing grows in 500 scrapes in which endpoints come, go and fail.
func TestSimulated500Scrapes(t *testing.T) {
	d := simulated(t)
	for i := range 10 {
		d.PutNumbered(i)
	}
	failing := simhns.Numbered(2)
	d.Write("hcn/endpoints/"+failing.ID+".query.hr", "803B0002")
	s, _ := startedReal(t, Config{})
	d.LogCalls()
	scrape := func(n int) {
		for i := range n {
			// Another endpoint each time, and the one before is gone.
			d.PutNumbered(1000 + i)
			if i > 0 {
				d.RemoveEndpoint(simhns.Numbered(1000 + i - 1).ID)
			}
			r := read(t, s, patient)
			require.Equal(t, []string{failing.ID}, failed(r.err))
			require.Len(t, r.endpoints, 10)
		}
		d.RemoveEndpoint(simhns.Numbered(1000 + n - 1).ID)
	}
	scrape(50)
	before := holds(t)
	scrape(500)
	after := holds(t)
	t.Logf("before %+v, after %+v", before, after)
	assert.Less(t, after.heap, before.heap+100<<10, "a leak of 200 bytes a scrape would show")
	assert.LessOrEqual(t, after.goroutines, before.goroutines)
	assert.LessOrEqual(t, after.next, before.next+handles, "handles of the process")
	assert.Len(t, s.records, 11)
	assertNoHandles(t, d)
}

// handles is how much the number of the next handle may grow: by the runtime's
// threads, and not by one a scrape. Numbers go in steps of four.
const handles = 4 * 20

// Running vfpctrl.exe leaves nothing, whatever it does.
func TestSimulatedRunsLeaveNothing(t *testing.T) {
	d := simulated(t)
	good := d.PutNumbered(0)
	slow := d.PutNumbered(1)
	d.Delay("vfp/"+slow.Port, patient)
	d.Write("vfp/"+slow.Port+".child", "60000")
	program, err := newVFPCtrl()
	require.NoError(t, err)
	run := func(times int) {
		for range times {
			_, _ = program.run(t.Context(), 1<<20, "/port", good.Port, "/get-port-counter")
			_, err := program.run(t.Context(), 10, "/port", good.Port, "/get-port-counter")
			require.ErrorContains(t, err, "more than 10 bytes")
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err = program.run(ctx, 1<<20, "/port", slow.Port, "/get-port-counter")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = exe{`C:\no such program.exe`}.run(t.Context(), 1)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
	run(5)
	before := holds(t)
	run(50)
	after := holds(t)
	t.Logf("before %+v, after %+v", before, after)
	assert.LessOrEqual(t, after.goroutines, before.goroutines)
	assert.LessOrEqual(t, after.next, before.next+handles)
	assertNoVFPCtrl(t)
}

// The allocations that this package adds to a scrape: those of hcsshim's call for
// the statistics, which both ways make, are in both figures. "hcsshim" is the
// common way, a list by hcsshim and then one call after the other.
func BenchmarkSimulatedScrape(b *testing.B) {
	for _, n := range []int{50, 250} {
		d := simulated(b)
		var ids []string
		for i := range n {
			ids = append(ids, d.PutNumbered(i).ID)
		}
		perEndpoint := func(b *testing.B, f func()) {
			var before, after runtime.MemStats
			f()
			f()
			runtime.ReadMemStats(&before)
			b.ResetTimer()
			for range b.N {
				f()
			}
			b.StopTimer()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N*n), "allocs/endpoint")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N*n), "B/endpoint")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/endpoint")
		}
		b.Run(fmt.Sprintf("source/%d", n), func(b *testing.B) {
			s, err := New(Config{Deadline: patient}, componenttest.NewNopTelemetrySettings())
			require.NoError(b, err)
			require.NoError(b, s.Start(b.Context()))
			defer func() { require.NoError(b, s.Close()) }()
			perEndpoint(b, func() {
				visited := 0
				if err := s.Read(b.Context(), func(*endpoint.Endpoint, *endpoint.Counters) { visited++ }); err != nil || visited != n {
					b.Fatal(visited, err)
				}
			})
		})
		b.Run(fmt.Sprintf("hcsshim/%d", n), func(b *testing.B) {
			query := hcn.HostComputeQuery{SchemaVersion: hcn.SchemaVersion{Major: 2}, Filter: `{"State":3}`}
			perEndpoint(b, func() {
				list, err := hcn.ListEndpointsQuery(query)
				if err != nil || len(list) != n {
					b.Fatal(len(list), err)
				}
				for _, e := range list {
					if _, err := hcsshim.GetHNSEndpointStats(e.Id); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run(fmt.Sprintf("hcsshim-statistics-only/%d", n), func(b *testing.B) {
			perEndpoint(b, func() {
				for _, id := range ids {
					if _, err := hcsshim.GetHNSEndpointStats(id); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// What one read of VFP costs when vfpctrl itself takes no time: a process in a
// job, and the common way, a process and a shell. Under Wine.
func BenchmarkSimulatedVFPRead(b *testing.B) {
	d := simulated(b)
	e := d.PutNumbered(0)
	program, err := newVFPCtrl()
	require.NoError(b, err)
	v := &vfpctrl{program: program, timeout: patient}
	b.Run("source", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.counters(b.Context(), e.Port); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cmd", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if out, err := exec.Command("cmd", "/c", "vfpctrl /port "+e.Port+" /get-port-counter").Output(); err != nil || len(out) == 0 {
				b.Fatal(err)
			}
		}
	})
}
