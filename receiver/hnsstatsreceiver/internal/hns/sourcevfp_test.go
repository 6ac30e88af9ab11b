// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// vfpctrl that doesn't work at all is reported once and tried again later, and
// HNS's counters go on.
func TestVFPCtrlThatDoesNotWork(t *testing.T) {
	for name, fault := range map[string]error{
		"missing":  errMissing,
		"refusing": &exitError{5, "ERROR: access denied"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(40)
				f.runErr = fault
				s, logs := started(t, f, vfpConfig())
				r := read(t, s, interval)
				require.ErrorContains(t, r.err, fault.Error())
				assert.Len(t, r.counters, 40)
				runs := 0
				for _, n := range f.runs {
					runs += n
				}
				// Each port is asked in both forms. When the last straw is counted, each
				// worker can have one answer waiting and one more port asked.
				assert.LessOrEqual(t, runs, 2*(vfpGiveUp+2*vfpInFlight), "it isn't tried for all 40")

				for range 5 {
					time.Sleep(interval)
					f.calls()
					r = read(t, s, interval)
					require.NoError(t, r.err, "reported once")
					assert.Len(t, r.counters, 40)
					assert.NotContains(t, f.calls(), "vfpctrl")
				}
				time.Sleep(interval) // a minute is over
				f.calls()
				require.NoError(t, read(t, s, interval).err, "tried again, and no news")
				require.Equal(t, 1, logs.Len())
				assert.Contains(t, logs.All()[0].Message, "hns::vfp::enabled")

				f.with(func() { f.runErr = nil })
				time.Sleep(vfpPause)
				r = read(t, s, interval)
				require.NoError(t, r.err)
				assert.Len(t, r.withVFP(), 40)
				assert.Equal(t, 2, logs.Len())
			})
		})
	}
}

func TestVFPFailuresOfOnePort(t *testing.T) {
	bad := simhns.Numbered(1)
	for name, tt := range map[string]struct {
		fault func(f *fake)
		want  string
	}{
		"refused": {func(f *fake) { delete(f.vfp, bad.Port) }, "vfpctrl refused: ERROR: failed to open port"},
		"exits 1": {func(f *fake) { f.portErr[bad.Port] = &exitError{1, "gone"} }, "exit code 1: gone"},
		"hangs":   {func(f *fake) { f.vfpWait[bad.Port] = time.Hour }, "no answer within 5s and was killed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(3)
				s, logs := started(t, f, vfpConfig())
				require.NoError(t, read(t, s, interval).err)
				f.with(func() { tt.fault(f) })
				for range 3 {
					r := read(t, s, interval)
					require.ErrorContains(t, r.err, tt.want)
					assert.Equal(t, []string{bad.ID + " (pod-1)"}, failed(r.err))
					assert.Equal(t, []string{simhns.Numbered(0).ID, simhns.Numbered(2).ID}, r.withVFP())
					assert.Equal(t, wantCounters(simhns.NumberedStats(1), nil), r.counters[bad.ID], "HNS's counters go on")
				}
				assert.Zero(t, logs.Len(), "vfpctrl works")
			})
		})
	}
}

// The port of the node's only pod can go before HNS forgets its endpoint, which is
// no reason to leave vfpctrl alone: the next pod has its counters at once.
func TestTheOnlyPortIsRefused(t *testing.T) {
	bad := simhns.Numbered(0)
	for name, fault := range map[string]func(f *fake){
		"refused": func(f *fake) { delete(f.vfp, bad.Port) },
		"exits 1": func(f *fake) { f.portErr[bad.Port] = &exitError{1, "gone"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(1)
				s, logs := started(t, f, vfpConfig())
				require.NoError(t, read(t, s, interval).err)
				f.with(func() { fault(f) })
				require.Equal(t, []string{bad.ID + " (pod-0)"}, failed(read(t, s, interval).err))
				next := simhns.Numbered(1)
				f.put(next, simhns.NumberedStats(1), simhns.NumberedVFP(1))
				require.Equal(t, []string{next.ID}, read(t, s, interval).withVFP())
				require.Zero(t, logs.Len(), "vfpctrl works")
			})
		})
	}
}

// What was understood last may be what is refused, also where there is one pod only.
func TestTheOnlyPortIsAskedInTheOtherForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		s, _ := started(t, f, vfpConfig())
		require.NoError(t, read(t, s, interval).err)
		f.with(func() { f.textOnly = true })
		require.Error(t, read(t, s, interval).err)
		r := read(t, s, interval)
		require.NoError(t, r.err)
		require.Len(t, r.withVFP(), 1)
	})
}

// An answer that doesn't come is vfpctrl's own failure, whatever another form's was.
func TestTheOnlyPortHangs(t *testing.T) {
	require.False(t, ofOnePort(fmt.Errorf("%w; with /format 1: %w", &timeoutError{time.Second}, &exitError{1, "unknown option"})))
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.vfpWait[""] = time.Hour
		s, logs := started(t, f, vfpConfig())
		require.Error(t, read(t, s, interval).err)
		require.Equal(t, 1, logs.Len())
		require.NoError(t, read(t, s, interval).err, "it is left alone")
	})
}

func TestVFPIsNotRunWhenDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		s, _ := started(t, f, Config{})
		r := read(t, s, interval)
		require.NoError(t, r.err)
		assert.Empty(t, r.withVFP())
		assert.Empty(t, f.runs)
	})
}

// The list of switch ports is read when an endpoint is new whose port HNS doesn't
// tell, and not at all where it tells the ports.
func TestListOfPortsIsReadOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		s, _ := started(t, f, vfpConfig())
		require.NoError(t, read(t, s, interval).err)
		assert.Zero(t, f.runs["ports"])

		put := func(i int) {
			e := simhns.Numbered(i)
			e.NoAllocator = true
			f.put(e, simhns.NumberedStats(i), simhns.NumberedVFP(i))
		}
		lists := 0
		for i := 3; i < 6; i++ {
			put(i)
			for range 4 {
				r := read(t, s, interval)
				require.NoError(t, r.err)
				require.Len(t, r.withVFP(), i+1)
			}
			lists += 2 // as JSON, which this one doesn't know, and as text
			assert.Equal(t, lists, f.runs["ports"])
		}

		// An endpoint without a port is reported as soon as the list is read.
		lost := simhns.Numbered(6)
		lost.NoAllocator = true
		f.put(lost, simhns.NumberedStats(6), simhns.VFP{})
		f.with(func() { f.portErr["ports"] = &exitError{1, "busy"} })
		r := read(t, s, interval)
		require.ErrorContains(t, r.err, "the list of switch ports: vfpctrl failed with exit code 1: busy")
		assert.Len(t, r.withVFP(), 6)
		f.with(func() {
			delete(f.portErr, "ports")
			e := f.endpoints[lost.ID]
			e.MAC = ""
			f.endpoints[lost.ID] = e
		})
		r = read(t, s, interval)
		require.ErrorContains(t, r.err, "no port of the virtual switch has its MAC address")
		assert.Len(t, r.counters, 7)
	})
}

// A port left behind with the same MAC address makes an endpoint's uncertain. It
// is a failure for as long as the endpoint has no VFP counters for it, and each
// list that is read for another endpoint may end it.
func TestPortThatIsUncertainAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		put := func(i int) simhns.Endpoint {
			e := simhns.Numbered(i)
			e.NoAllocator = true
			f.put(e, simhns.NumberedStats(i), simhns.NumberedVFP(i))
			return e
		}
		late := put(0)
		f.with(func() { f.left["5d2b9c0e-1111-4aaa-8bbb-00000000ffff"] = late.MAC })
		s, logs := started(t, f, vfpConfig())
		first := read(t, s, interval)
		require.ErrorContains(t, first.err, "more than one has: it gets no VFP counters")
		require.Equal(t, []string{late.ID + " (pod-0)"}, failed(first.err))
		require.Len(t, first.counters, 1)

		put(1)
		for range 3 {
			r := read(t, s, interval)
			require.EqualError(t, r.err, first.err.Error(), "the same as long as it is so")
			require.Equal(t, []string{simhns.Numbered(1).ID}, r.withVFP())
		}
		lists := f.runs["ports"]

		f.with(func() { clear(f.left) })
		require.Error(t, read(t, s, interval).err, "no list is read for it alone")
		require.Equal(t, lists, f.runs["ports"])
		put(2)
		f.with(func() { f.statWait[simhns.Numbered(2).ID] = time.Second })
		r := read(t, s, interval)
		require.EqualError(t, r.err, first.err.Error(), "it was visited before the list was there")
		require.Equal(t, []string{simhns.Numbered(1).ID, simhns.Numbered(2).ID}, r.withVFP())
		r = read(t, s, interval)
		require.NoError(t, r.err)
		require.Len(t, r.withVFP(), 3)
		require.Equal(t, lists+2, f.runs["ports"])
		require.Zero(t, logs.Len())
	})
}

// What an endpoint lacks a port for says nothing of vfpctrl, which may fail for
// another reason in the same scrape.
func TestVFPCtrlIsNotBlamedForAPortThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		lost := simhns.Numbered(5)
		lost.NoAllocator, lost.MAC = true, ""
		f.put(lost, simhns.NumberedStats(5), simhns.VFP{})
		s, logs := started(t, f, vfpConfig())
		require.Equal(t, []string{lost.ID + " (pod-5)"}, failed(read(t, s, interval).err))
		f.with(func() { f.runErr = &exitError{5, "ERROR: access denied"} })
		r := read(t, s, interval)
		require.Len(t, failed(r.err), 3)
		require.Equal(t, 1, logs.Len())
		require.Contains(t, logs.All()[0].ContextMap()["error"], "access denied")
	})
}

// A port that is made anew has another GUID, with the same set of endpoints.
func TestAPortThatIsReplacedIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		e := simhns.Numbered(0)
		e.NoAllocator = true
		f.put(e, simhns.NumberedStats(0), simhns.NumberedVFP(0))
		s, _ := started(t, f, vfpConfig())
		require.Len(t, read(t, s, interval).withVFP(), 2)
		f.with(func() { delete(f.vfp, e.Port) })
		e.Port = "5d2b9c0e-1111-4aaa-8bbb-00000000ffff"
		f.put(e, simhns.NumberedStats(0), simhns.NumberedVFP(0))
		require.Equal(t, []string{e.ID + " (pod-0)"}, failed(read(t, s, interval).err))
		r := read(t, s, interval)
		require.NoError(t, r.err)
		require.Len(t, r.withVFP(), 2)
	})
}

// The context that kills vfpctrl can end before the scrape's loop sees that time is
// up. A run begun then would be killed at once, and its endpoint have had its turn.
func TestNoRunBeginsWhenTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sc := &scrape{
		s: &source{vfpJobs: make(chan vfpJob)}, vfpCtx: ctx,
		queue: []*record{{phase: ready, port: "p"}, {phase: done}}, pending: 1,
	}
	sc.queue[0].props = &properties{}
	jobs, j := sc.nextVFPJob()
	require.NotNil(t, jobs)
	require.Equal(t, "p", j.port)
	cancel()
	jobs, _ = sc.nextVFPJob()
	require.Nil(t, jobs)
}
