// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint/endpointtest"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

const interval = 10 * time.Second

func TestSourceKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(5)
		endpointtest.TestContract(t, newSource(vfpConfig(), componenttest.NewNopTelemetrySettings(), f, f))
	})
}

// An endpoint that fails is known to be still there.
func TestFailuresNameTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		s, _ := started(t, f, Config{})
		bad := simhns.Numbered(1)
		id := read(t, s, interval).endpoints[bad.ID].ID
		f.with(func() { f.statErr[bad.ID] = rpcUnavailable })
		var failure *endpoint.Error
		require.ErrorAs(t, read(t, s, interval).err, &failure)
		assert.Equal(t, id, failure.ID)
		assert.Equal(t, bad.ID+" (pod-1)", failure.Endpoint)
	})
}

// A failure without an ID is of an endpoint that was never visited, or of some
// that were all visited: nothing is known of an endpoint that isn't named.
func TestFailuresWithoutAnIDAreOfNoneThatWasLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(250)
		f.vfpWait[""] = 350 * time.Millisecond
		stale, later := simhns.Numbered(0), simhns.Numbered(1)
		f.propErr[stale.ID], f.v1Err = endpointNotFound, rpcUnavailable
		s, _ := started(t, f, vfpConfig())
		known := map[string]bool{} // IDs of those visited before
		for scrape := range 3 {
			if scrape == 2 {
				f.with(func() { f.propErr[later.ID] = rpcUnavailable })
			}
			r := read(t, s, interval)
			for _, e := range r.endpoints {
				known[e.ID] = true
			}
			require.Len(t, r.endpoints, 249-scrape/2)
			var join interface{ Unwrap() []error }
			require.ErrorAs(t, r.err, &join)
			var unnamed []string
			for _, err := range join.Unwrap() {
				var failure *endpoint.Error
				require.ErrorAs(t, err, &failure)
				if failure.ID == "" {
					unnamed = append(unnamed, failure.Endpoint)
				} else {
					require.Contains(t, known, failure.ID)
				}
			}
			require.ElementsMatch(t, []string{stale.ID, "(some of 250)"}, unnamed)
		}
	})
}

func TestReadHasEveryCounterOfEveryEndpoint(t *testing.T) {
	for _, n := range []int{0, 3, 250} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := started(t, newFake(n), vfpConfig())
			r := read(t, s, interval)
			require.NoError(t, r.err)
			require.Len(t, r.counters, n)
			for i := range n {
				e, v := simhns.Numbered(i), simhns.NumberedVFP(i)
				assert.Equal(t, wantCounters(simhns.NumberedStats(i), &v), r.counters[e.ID])
				got := *r.endpoints[e.ID]
				assert.NotEmpty(t, got.ID)
				got.ID = ""
				assert.Equal(t, endpoint.Endpoint{
					Interface: e.Name, Addresses: addrs(e.Addresses...), HNSEndpoint: e.ID, HNSNamespace: e.Namespace,
					Container: e.Containers[0],
				}, got)
			}
		})
	}
}

func TestTextFormIsReadWhereJSONIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.textOnly = true
		s, _ := started(t, f, vfpConfig())
		require.NoError(t, read(t, s, interval).err)
		f.calls()
		r := read(t, s, interval)
		require.NoError(t, r.err)
		v := simhns.NumberedVFP(1)
		assert.Equal(t, wantCounters(simhns.NumberedStats(1), &v), r.counters[simhns.Numbered(1).ID])
		for _, call := range f.calls() {
			assert.NotContains(t, call, "/format", "asked once, not every time")
		}
	})
}

// Calls to HNS: one list and, for each endpoint, its description and one for its
// statistics.
func TestCallsOfAScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(50)
		f.put(simhns.Endpoint{ID: "1a2b3c4d-0001-4000-8000-00000000ffff", Name: "the node's", State: simhns.Attached}, simhns.Stats{}, simhns.VFP{})
		s, _ := started(t, f, Config{})
		read(t, s, interval) // endpoints are new: there may be attached ones
		read(t, s, interval)
		f.calls()
		r := read(t, s, interval)
		require.NoError(t, r.err)
		require.Len(t, r.counters, 50)
		count := map[string]int{}
		for _, call := range f.calls() {
			what, _, _ := strings.Cut(call, " ")
			count[what]++
		}
		assert.Equal(t, map[string]int{"list": 1, "properties": 50, "statistics": 50}, count)
	})
}

func TestAttachedEndpointsWithContainersArePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		s, _ := started(t, f, Config{})
		for range 3 {
			read(t, s, interval)
		}
		pod := simhns.Numbered(7)
		pod.State = simhns.Attached
		f.put(pod, simhns.NumberedStats(7), simhns.VFP{})
		own := simhns.Numbered(8)
		own.State, own.Containers = simhns.Attached, nil
		f.put(own, simhns.NumberedStats(8), simhns.VFP{})
		remote := simhns.Numbered(9)
		remote.Remote = true
		f.put(remote, simhns.NumberedStats(9), simhns.VFP{})
		time.Sleep(attachedEvery)
		for range 3 { // and it stays
			r := read(t, s, interval)
			require.NoError(t, r.err)
			assert.Len(t, r.counters, 3)
			assert.Contains(t, r.counters, pod.ID)
		}
	})
}

func TestVFPOf250EndpointsFitsIntoTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(250)
		f.vfpWait[""] = 100 * time.Millisecond
		s, _ := started(t, f, vfpConfig())
		r := read(t, s, interval)
		require.NoError(t, r.err)
		assert.Len(t, r.withVFP(), 250)
		assert.Less(t, r.took, interval)
		assert.Equal(t, vfpInFlight, f.most)
	})
}

// Where VFP is too slow for everyone, everyone has their turn, and the scrape
// keeps its deadline.
func TestVFPRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(250)
		f.vfpWait[""] = 350 * time.Millisecond
		s, logs := started(t, f, vfpConfig())
		last := map[string]int{} // the scrape that reached an endpoint last
		for scrape := 1; scrape <= 12; scrape++ {
			r := read(t, s, interval)
			require.LessOrEqual(t, r.took, interval)
			require.Len(t, r.counters, 250, "HNS's counters are there for all")
			got := r.withVFP()
			require.InDelta(t, 100, len(got), 5, "4 at a time, 350 ms each, for 9 s")
			require.EqualError(t, r.err, "endpoint (some of 250): "+errUnreached.Error(), "the same as long as it is so")
			require.Equal(t, 1, logs.Len(), "with the numbers, once")
			newest := 0 // the last turn of those reached now
			for _, id := range got {
				newest = max(newest, last[id])
			}
			for _, id := range f.ids {
				if !slices.Contains(got, id) {
					require.GreaterOrEqual(t, last[id], newest, "%s waits, and one came that waited less", id)
				}
				require.GreaterOrEqual(t, last[id], scrape-3, "%s waits longer than three scrapes", id)
			}
			for _, id := range got {
				last[id] = scrape
			}
			time.Sleep(interval - r.took)
		}
	})
}

// Ports that hang when the scrape has less time than vfpctrl may take must not
// keep the workers from the others for good.
func TestHangingPortsLeaveTheOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(12)
		for i := range vfpInFlight {
			f.vfpWait[simhns.Numbered(i).Port] = time.Hour
		}
		s, _ := started(t, f, vfpConfig())
		seen := map[string]bool{}
		for range 4 {
			r := read(t, s, 2*time.Second)
			require.LessOrEqual(t, r.took, 2*time.Second)
			require.Len(t, r.counters, 12)
			for _, id := range r.withVFP() {
				seen[id] = true
			}
		}
		assert.Len(t, seen, 12-vfpInFlight)
	})
}

func TestOneHangingEndpointCostsOnlyItself(t *testing.T) {
	for name, waits := range map[string]func(*fake) map[string]time.Duration{
		"in its properties": func(f *fake) map[string]time.Duration { return f.propWait },
		"in its statistics": func(f *fake) map[string]time.Duration { return f.statWait },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(20)
				hangs := simhns.Numbered(4)
				s, _ := started(t, f, Config{})
				require.NoError(t, read(t, s, interval).err)
				f.with(func() { waits(f)[hangs.ID] = 17 * time.Second })
				begun := time.Now().Format(time.TimeOnly)
				r := read(t, s, interval)
				assert.Equal(t, hnsPatience, r.took)
				assert.Len(t, r.counters, 19)
				assert.Equal(t, []string{hangs.ID + " (pod-4)"}, failed(r.err))
				require.ErrorContains(t, r.err, "HNS has not answered since "+begun)

				f.calls()
				r = read(t, s, interval)
				assert.Zero(t, r.took, "nobody waits for it again")
				require.ErrorContains(t, r.err, "HNS has not answered since "+begun)
				assert.NotContains(t, f.calls(), "statistics "+hangs.ID, "no second call while one hangs")

				f.with(func() { delete(waits(f), hangs.ID) })
				time.Sleep(20 * time.Second)
				r = read(t, s, interval)
				require.NoError(t, r.err)
				assert.Len(t, r.counters, 20)
			})
		})
	}
}

// Nor does anybody wait when all endpoints hang.
func TestEverythingStillHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		s, _ := started(t, f, Config{})
		require.NoError(t, read(t, s, interval).err)
		f.with(func() { f.statWait[""] = time.Minute })
		assert.Equal(t, hnsPatience, read(t, s, interval).took)
		r := read(t, s, interval)
		assert.Zero(t, r.took)
		require.ErrorContains(t, r.err, "HNS has not answered since")
		time.Sleep(time.Minute)
	})
}

// An answer that comes late, but while others are still read, counts.
func TestALateAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.statWait[simhns.Numbered(0).ID] = 6 * time.Second
		f.vfpWait[simhns.Numbered(1).Port] = 7 * time.Second
		cfg := vfpConfig()
		cfg.VFP.Timeout = 8 * time.Second
		s, _ := started(t, f, cfg)
		r := read(t, s, interval)
		require.NoError(t, r.err)
		assert.Len(t, r.counters, 3)
	})
}

func TestHNSThatHangsAltogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(30)
		f.statWait[""] = time.Minute
		s, _ := started(t, f, Config{})
		r := read(t, s, interval)
		assert.LessOrEqual(t, r.took, interval)
		assert.Empty(t, r.counters)
		assert.Len(t, failed(r.err), 30)
		require.ErrorContains(t, r.err, "not reached before the scrape's time was up")

		time.Sleep(time.Minute)
		f.with(func() { delete(f.statWait, "") })
		require.NoError(t, read(t, s, interval).err)

		f.with(func() { f.listWait = 25 * time.Second })
		for range 2 {
			r = read(t, s, interval)
			assert.LessOrEqual(t, r.took, interval)
			require.ErrorContains(t, r.err, "list the HNS endpoints: HNS has not answered since")
			require.ErrorContains(t, r.err, "Restart-Service hns")
			assert.Empty(t, failed(r.err), "it is no single endpoint's failure")
		}
		f.with(func() { f.listWait = 0 })
		time.Sleep(30 * time.Second)
		require.NoError(t, read(t, s, interval).err)
	})
}

func TestFailuresOfOneEndpoint(t *testing.T) {
	bad := simhns.Numbered(1)
	for name, tt := range map[string]struct {
		fault func(f *fake)
		want  string
	}{
		"vanished before its description":    {func(f *fake) { f.propErr[bad.ID] = endpointNotFound }, "endpoint not found"},
		"vanished before its statistics":     {func(f *fake) { delete(f.stats, bad.ID) }, "element not found (0x80070490)"},
		"access denied":                      {func(f *fake) { f.statErr[bad.ID] = accessDenied }, "LocalSystem"},
		"RPC server unavailable":             {func(f *fake) { f.statErr[bad.ID] = rpcUnavailable }, "Start-Service hns"},
		"a panic inside hcsshim":             {func(f *fake) { f.statErr[bad.ID] = errors.New("panic") }, "panicked"},
		"an answer without content":          {func(f *fake) { f.stats[bad.ID] = simhns.Stats{} }, "HNS's statistics: an answer without content"},
		"another endpoint's statistics":      {func(f *fake) { f.stats[bad.ID] = simhns.Stats{EndpointId: simhns.Numbered(2).ID} }, "HNS's statistics: they are those of endpoint"},
		"a failure that has no description":  {func(f *fake) { f.statErr[bad.ID] = hresult(0x8037011f) }, "0x8037011f"},
		"a description that can't be parsed": {func(f *fake) { f.endpoints[bad.ID] = simhns.Endpoint{ID: "x"}; f.ids = slices.Clone(f.ids) }, "HCN's properties: they are those of endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(3)
				s, _ := started(t, f, vfpConfig())
				require.NoError(t, read(t, s, interval).err)
				if name == "a description that can't be parsed" {
					f.v1Err = errors.New("no")
					e := f.endpoints[bad.ID]
					e.ID = "1a2b3c4d-0001-4000-8000-00000000ffff"
					f.endpoints[bad.ID] = e
				} else {
					f.with(func() { tt.fault(f) })
				}
				r := read(t, s, interval)
				require.ErrorContains(t, r.err, tt.want)
				assert.Equal(t, []string{bad.ID + " (pod-1)"}, failed(r.err))
				assert.Len(t, r.withVFP(), 2, "the others are all right")
			})
		})
	}
}

func TestListFailures(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(3)
			s, logs := started(t, f, vfpConfig())
			f.listErr = elementNotFound
			go func() { f.with(func() { f.listErr = nil }) }()
			r := read(t, s, interval)
			require.NoError(t, r.err)
			assert.Len(t, r.withVFP(), 3)
			assert.LessOrEqual(t, logs.Len(), 1)
		})
	})
	t.Run("HCN for good, so the older list is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(3)
			f.listErr = elementNotFound
			s, logs := started(t, f, vfpConfig())
			for range 3 {
				r := read(t, s, interval)
				require.NoError(t, r.err)
				require.Len(t, r.withVFP(), 3, "with the port by MAC address")
				require.Equal(t, addrs(simhns.Numbered(1).Addresses...), r.endpoints[simhns.Numbered(1).ID].Addresses)
			}
			assert.Equal(t, 1, f.runs["ports"]/2, "in JSON, which it doesn't know, and in text")
			require.Equal(t, 1, logs.Len(), "reported once")
			assert.Contains(t, logs.All()[0].Message, "older HNS list")
			f.with(func() { f.listErr = nil })
			require.NoError(t, read(t, s, interval).err)
			assert.Equal(t, "HCN lists the endpoints again", logs.All()[1].Message)
		})
	})
	t.Run("access denied", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(3)
			f.listErr, f.v1Err = accessDenied, accessDenied
			s, _ := started(t, f, vfpConfig())
			r := read(t, s, interval)
			require.ErrorContains(t, r.err, "HostProcess")
			require.ErrorIs(t, r.err, accessDenied)
			assert.Equal(t, []string{"list 3", "list v1"}, f.calls(), "asking again doesn't help")
		})
	})
	t.Run("an answer without content", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _ := started(t, newFake(0), Config{})
			s.calls.(*fake).v1Err = nil
			s.calls.(*fake).listErr = rpcUnavailable
			r := read(t, s, interval)
			require.NoError(t, r.err, "no endpoints is an answer")
		})
	})
}

// HCN lists an endpoint and fails to describe it: the older list may.
func TestEndpointThatOnlyTheOlderListDescribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		bad := simhns.Numbered(1)
		f.propErr[bad.ID] = rpcUnavailable
		s, _ := started(t, f, vfpConfig())
		r := read(t, s, interval)
		assert.Equal(t, []string{bad.ID}, failed(r.err), "it is incomplete, and says so")
		assert.Len(t, r.withVFP(), 3)
		assert.Equal(t, addrs(bad.Addresses...), r.endpoints[bad.ID].Addresses)
		f.with(func() { f.v1Err = rpcUnavailable })
		r = read(t, s, interval)
		assert.Equal(t, []string{bad.ID + " (pod-1)"}, failed(r.err))
		assert.Len(t, r.withVFP(), 2)
	})
}

// The older list that hangs costs the endpoint that it was asked for, and the others
// nothing but a while, once.
func TestOlderListThatHangsCostsOneEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(20)
		bad := simhns.Numbered(4)
		f.vfpWait[""] = 100 * time.Millisecond
		s, _ := started(t, f, vfpConfig())
		require.NoError(t, read(t, s, interval).err)
		f.with(func() { f.propErr[bad.ID], f.v1Wait = rpcUnavailable, time.Minute })
		for scrape := range 4 {
			f.calls()
			r := read(t, s, interval)
			require.Len(t, r.withVFP(), 19)
			require.Equal(t, []string{bad.ID + " (pod-4)"}, failed(r.err))
			require.ErrorIs(t, r.err, rpcUnavailable, "its own error")
			if scrape == 0 {
				require.Equal(t, hnsPatience, r.took)
			} else {
				require.Less(t, r.took, time.Second, "nobody waits for it again")
				require.NotContains(t, f.calls(), "list v1", "no second call while one hangs")
			}
			time.Sleep(interval - r.took)
		}
		f.with(func() { f.v1Wait = 0 })
		time.Sleep(time.Minute)
		require.Len(t, read(t, s, interval).counters, 20, "by the older list")
	})
}

// As with any other call, its answer counts if it comes late, but while others are
// still read.
func TestOlderListThatIsLateCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.propErr[simhns.Numbered(0).ID], f.v1Wait = rpcUnavailable, 6*time.Second
		f.vfpWait[simhns.Numbered(1).Port] = 7 * time.Second
		cfg := vfpConfig()
		cfg.VFP.Timeout = 8 * time.Second
		s, _ := started(t, f, cfg)
		r := read(t, s, interval)
		require.Equal(t, []string{simhns.Numbered(0).ID}, failed(r.err))
		require.Len(t, r.counters, 3)
	})
}

// A description that fails when the older list was read already is the endpoint's
// failure, not its end.
func TestDescriptionThatFailsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		early, late := simhns.Numbered(0), simhns.Numbered(1)
		cfg := vfpConfig()
		cfg.VFP.Timeout = 9 * time.Second
		s, _ := started(t, f, cfg)
		require.NoError(t, read(t, s, interval).err)
		f.with(func() {
			f.propErr[early.ID], f.propErr[late.ID] = rpcUnavailable, rpcUnavailable
			f.propWait[late.ID] = 7 * time.Second
			f.vfpWait[simhns.Numbered(2).Port] = 8 * time.Second
		})
		r := read(t, s, interval)
		require.Equal(t, []string{early.ID + " (pod-0)", late.ID + " (pod-1)"}, failed(r.err))
		require.Len(t, r.counters, 2)
	})
}

func TestEndpointsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		s, _ := started(t, f, Config{})
		one, two := simhns.Numbered(0), simhns.Numbered(1)
		before := read(t, s, interval).endpoints
		time.Sleep(interval)
		again := read(t, s, interval).endpoints
		assert.Same(t, before[one.ID], again[one.ID], "nothing changed")

		changed := two
		changed.Addresses = []string{"10.9.9.9"}
		f.put(changed, simhns.NumberedStats(1), simhns.VFP{})
		now := read(t, s, interval).endpoints[two.ID]
		assert.Equal(t, addrs("10.9.9.9"), now.Addresses)
		assert.Equal(t, before[two.ID].ID, now.ID, "the same endpoint with another address")
		assert.Equal(t, before[two.ID].Created, now.Created)

		f.remove(two.ID)
		assert.NotContains(t, read(t, s, interval).endpoints, two.ID)
		assert.Len(t, s.records, 1, "what is gone is forgotten")
		absent := time.Now()
		time.Sleep(interval)
		three := simhns.Numbered(2)
		f.put(three, simhns.Stats{}, simhns.VFP{})
		f.put(two, simhns.Stats{}, simhns.VFP{})
		later := read(t, s, interval).endpoints
		assert.Equal(t, absent, later[three.ID].Created, "its counters are not older")
		assert.True(t, before[two.ID].Created.IsZero(), "it was there before the first look")
		reborn := later[two.ID]
		assert.NotEqual(t, before[two.ID].ID, reborn.ID, "made anew with the same GUID, for all that is known")
		assert.True(t, reborn.Created.IsZero(), "its counters are of before, for all that is known")

		other := two // replaced between two scrapes
		other.MAC = "00-15-5D-00-00-99"
		f.put(other, simhns.Stats{}, simhns.VFP{})
		third := read(t, s, interval).endpoints[two.ID]
		assert.NotEqual(t, reborn.ID, third.ID)
		assert.True(t, third.Created.IsZero(), "nobody saw it absent")
	})
}

// An endpoint that a list lacks for a while, because its state was another one, has
// the counters of its whole life when it is back: none of them are one interval's.
func TestEndpointThatListsLackForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		s, _ := started(t, f, Config{})
		read(t, s, interval)
		pod := simhns.Numbered(1)
		f.put(pod, simhns.NumberedStats(1), simhns.VFP{})
		time.Sleep(interval)
		require.False(t, read(t, s, interval).endpoints[pod.ID].Created.IsZero())
		degraded := pod
		degraded.State = 5
		for _, scrapes := range []int{1, 20} {
			f.put(degraded, simhns.NumberedStats(1), simhns.VFP{})
			for range scrapes {
				time.Sleep(interval)
				require.NotContains(t, read(t, s, interval).endpoints, pod.ID)
			}
			f.put(pod, simhns.NumberedStats(1), simhns.VFP{})
			time.Sleep(interval)
			require.True(t, read(t, s, interval).endpoints[pod.ID].Created.IsZero())
			require.Empty(t, s.left)
		}

		f.remove(pod.ID)
		read(t, s, interval)
		require.Len(t, s.left, 1)
		time.Sleep(leftFor + time.Second)
		read(t, s, interval)
		require.Empty(t, s.left, "it is not kept for good")
	})
}

// An endpoint is attached before its container is, and not listed every time then.
// Nothing of it was told, so that its traffic counts from the first list on that did
// not have it.
func TestEndpointThatWaitsForItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		s, _ := started(t, f, Config{})
		for range 3 {
			read(t, s, interval)
			time.Sleep(interval)
		}
		absent := s.listedAt[attached]
		pod := simhns.Numbered(1)
		waits := pod
		waits.State, waits.Containers = simhns.Attached, nil
		f.put(waits, simhns.NumberedStats(1), simhns.VFP{})
		time.Sleep(attachedEvery)
		require.NotContains(t, read(t, s, interval).endpoints, pod.ID)
		require.Contains(t, s.records, pod.ID)
		time.Sleep(interval)
		read(t, s, interval)
		require.NotContains(t, s.records, pod.ID, "it was not asked for")
		f.put(pod, simhns.NumberedStats(1), simhns.VFP{})
		time.Sleep(interval)
		require.Equal(t, absent, read(t, s, interval).endpoints[pod.ID].Created)
		require.Empty(t, s.left)
	})
}

// An endpoint that takes over an address begins after its predecessor's last point:
// their pod can be the same, and so can their series.
func TestSuccessorBeginsAfterItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		f.vfpWait[""] = 2 * time.Second
		s, _ := started(t, f, vfpConfig())
		begin := time.Now()
		require.Equal(t, 2*time.Second, read(t, s, interval).took)
		f.remove(simhns.Numbered(0).ID)
		successor, other := simhns.Numbered(5), simhns.Numbered(6)
		successor.Addresses = simhns.Numbered(0).Addresses
		f.put(successor, simhns.Stats{}, simhns.VFP{})
		f.put(other, simhns.Stats{}, simhns.VFP{})
		r := read(t, s, interval)
		assert.Equal(t, begin.Add(2*time.Second), r.endpoints[successor.ID].Created)
		assert.Equal(t, begin, r.endpoints[other.ID].Created, "the list that did not have it")
	})
}

// So does one in state "attached", of which the list that lacks its predecessor may
// not tell.
func TestAttachedSuccessorBeginsAfterItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		unread := simhns.Numbered(3) // has the address, too, and is never visited
		unread.Addresses = simhns.Numbered(0).Addresses
		f.put(unread, simhns.NumberedStats(3), simhns.VFP{})
		f.statErr[unread.ID] = rpcUnavailable
		s, _ := started(t, f, Config{})
		var last time.Time
		for range 4 {
			time.Sleep(interval)
			last = time.Now()
			read(t, s, interval)
		}
		require.True(t, s.listedAt[attached].Before(last))
		successor := simhns.Numbered(5)
		successor.State, successor.Addresses = simhns.Attached, simhns.Numbered(0).Addresses
		f.remove(simhns.Numbered(0).ID)
		f.put(successor, simhns.NumberedStats(5), simhns.VFP{})
		time.Sleep(interval)
		require.NotContains(t, read(t, s, interval).endpoints, successor.ID)
		f.remove(unread.ID)
		time.Sleep(interval)
		require.Equal(t, last, read(t, s, interval).endpoints[successor.ID].Created)
		time.Sleep(interval)
		read(t, s, interval)
		require.Empty(t, s.gone)
	})
}

func TestCloseWaitsForAHangingCallAndThenSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.statWait[""] = time.Minute
		s := newSource(Config{}, componenttest.NewNopTelemetrySettings(), f, f)
		require.NoError(t, s.Start(t.Context()))
		read(t, s, time.Second)
		require.ErrorContains(t, s.Close(), "end with the process")
		require.NoError(t, s.Close(), "safe twice")
		s.workers.Wait() // a minute later nothing is left
	})
	s := newSource(Config{}, componenttest.NewNopTelemetrySettings(), newFake(0), nil)
	require.NoError(t, s.Close(), "safe without Start")
}

func TestReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.vfpWait[""] = time.Hour
		s, logs := started(t, f, vfpConfig())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		visited := 0
		_ = s.Read(ctx, func(*endpoint.Endpoint, *endpoint.Counters) { visited++ })
		assert.Equal(t, time.Second, time.Since(begin))
		assert.Equal(t, 3, visited)
		assert.Zero(t, logs.Len(), "VFP is not called slow for it")
		require.ErrorIs(t, s.Read(ctx, nil), context.Canceled)
	})
}
