// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint/endpointtest"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// point is a data point, in seconds after epoch.
type point struct {
	start, time int
	value       int64
}

func bytesReceived(t *testing.T, md pmetric.Metrics) point {
	t.Helper()
	return firstPoint(t, md, "k8s.pod.network.io")
}

func firstPoint(t *testing.T, md pmetric.Metrics, name string) point {
	t.Helper()
	require.Equal(t, 1, md.ResourceMetrics().Len())
	metrics := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	for _, m := range metrics.All() {
		if m.Name() == name {
			dp := m.Sum().DataPoints().At(0)
			seconds := func(at time.Time) int { return int(at.Sub(epoch) / time.Second) }
			return point{seconds(dp.StartTimestamp().AsTime()), seconds(dp.Timestamp().AsTime()), dp.IntValue()}
		}
	}
	t.Fatal("no " + name)
	return point{}
}

// added is what a stream of points adds up to for a reader that follows
// OpenTelemetry's data model: a point adds what it has more than the one
// before it with the same start; the first point of a new start adds its value,
// unless it is stamped with that very start.
func added(t *testing.T, points []point) (sum int64) {
	t.Helper()
	var last *point
	for i := range points {
		p := &points[i]
		require.LessOrEqual(t, p.start, p.time)
		switch {
		case last != nil && p.start == last.start:
			require.GreaterOrEqual(t, p.value, last.value, "a rate is never negative")
			sum += p.value - last.value
		case p.start != p.time:
			if last != nil {
				require.GreaterOrEqual(t, p.start, last.time, "no moment is counted twice")
			}
			sum += p.value
		}
		last = p
	}
	return sum
}

// step is one look at the endpoint. bytes and packets are its counters.
type step struct {
	at             int
	bytes, packets uint64
	change         func(*endpoint.Endpoint)
}

func TestStartTimes(t *testing.T) {
	created := func(second int) func(*endpoint.Endpoint) {
		return func(e *endpoint.Endpoint) { e.Created = epoch.Add(time.Duration(second) * time.Second) }
	}
	unchanged := func(*endpoint.Endpoint) {}
	for name, test := range map[string]struct {
		steps []step
		want  []point
		added int64 // of the real traffic, what the points account for
	}{
		"created while watched": {
			[]step{{10, 100, 1, created(7)}, {20, 300, 3, unchanged}},
			[]point{{7, 10, 100}, {7, 20, 300}}, 300,
		},
		"there before": {
			[]step{{10, 5000, 50, unchanged}, {20, 5100, 51, unchanged}},
			[]point{{10, 10, 5000}, {10, 20, 5100}}, 100,
		},
		"all counters begin anew": {
			[]step{{10, 100, 10, created(0)}, {20, 30, 3, unchanged}, {30, 50, 5, unchanged}},
			[]point{{0, 10, 100}, {10, 20, 30}, {10, 30, 50}}, 150,
		},
		"one counter goes back": {
			[]step{{10, 100, 10, created(0)}, {20, 300, 3, unchanged}, {30, 350, 5, unchanged}},
			[]point{{0, 10, 100}, {20, 20, 300}, {20, 30, 350}}, 150,
		},
		"another endpoint with the same attributes": {
			[]step{
				{10, 100, 10, created(0)},
				{20, 40, 4, func(e *endpoint.Endpoint) { e.ID = "2"; created(15)(e) }},
				{30, 60, 6, unchanged},
			},
			[]point{{0, 10, 100}, {15, 20, 40}, {15, 30, 60}}, 160,
		},
		"the interface is renamed": {
			[]step{
				{10, 100, 10, created(0)},
				{20, 300, 30, func(e *endpoint.Endpoint) { e.Interface = "net1" }},
				{30, 400, 40, unchanged},
			},
			[]point{{0, 10, 100}, {20, 20, 300}, {20, 30, 400}}, 200,
		},
		"the first address changes": {
			[]step{
				{10, 100, 10, created(0)},
				{20, 300, 30, func(e *endpoint.Endpoint) { e.Addresses = []netip.Addr{netip.MustParseAddr("10.1.0.3")} }},
			},
			[]point{{0, 10, 100}, {20, 20, 300}}, 100,
		},
		"another address comes": {
			[]step{
				{10, 100, 10, created(0)},
				{20, 300, 30, func(e *endpoint.Endpoint) { e.Addresses = append(e.Addresses, netip.MustParseAddr("fd01::2")) }},
			},
			[]point{{0, 10, 100}, {0, 20, 300}}, 300,
		},
		"the clock is set back before the start": {
			[]step{{10, 100, 10, created(8)}, {5, 200, 20, unchanged}, {15, 250, 25, unchanged}},
			[]point{{8, 10, 100}, {5, 5, 200}, {5, 15, 250}}, 150,
		},
		"created in the future": {
			[]step{{10, 100, 10, created(12)}, {20, 200, 20, unchanged}},
			[]point{{10, 10, 100}, {10, 20, 200}}, 100,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			e := endpoint.Endpoint{ID: "1", Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}}
			var got []point
			for _, s := range test.steps {
				s.change(&e)
				c := endpoint.Counters{Bytes: [2]uint64{s.bytes, 0}, Packets: [2]uint64{s.packets, 0}, Errors: &[2]uint64{}}
				got = append(got, bytesReceived(t, b.at(s.at, endpointtest.Sight{Endpoint: e, Counters: c})))
			}
			require.Equal(t, test.want, got)
			require.Equal(t, test.added, added(t, got))
			require.Len(t, b.series, 1)
		})
	}
}

// VFP can fail for a while; what it counts is compared with what it counted
// before.
func TestPartThatIsMissingForAWhile(t *testing.T) {
	b := newBench(t)
	whole := windowsPod
	without := windowsPod
	without.TCP, without.ACLDropped = nil, nil
	b.at(0, whole)
	start := b.series["2"].start
	b.at(10, without)
	require.Equal(t, start, b.series["2"].start)
	b.at(20, whole)
	require.Equal(t, start, b.series["2"].start)

	again := windowsPod
	again.TCP = &endpoint.TCP{
		Packets:   &[2][endpoint.NumTCPFlags]uint64{{1, 2, 3, 4}, {5, 6, 7, 7}},
		HasPacket: [endpoint.NumTCPFlags]bool{true, true, true, true},
	}
	b.at(30, again)
	require.NotEqual(t, start, b.series["2"].start, "one of VFP's counters went back")
}

// eventStep is one look at the endpoint, which lacks the TCP events if events is
// negative.
type eventStep struct {
	at, bytes, events int
	change            func(*endpoint.Endpoint)
}

// What comes later than the others, or comes back, must not bring its past along.
func TestStartTimesOfAPartThatComesLate(t *testing.T) {
	const none = -1
	created := func(e *endpoint.Endpoint) { e.Created = epoch.Add(7 * time.Second) }
	renamed := func(e *endpoint.Endpoint) { e.Interface = "net1" }
	unchanged := func(*endpoint.Endpoint) {}
	for name, test := range map[string]struct {
		steps  []eventStep
		starts []int
		added  int64 // of the events
	}{
		"there before": {
			[]eventStep{{10, 5000, none, unchanged}, {20, 5100, 900, unchanged}, {30, 5200, 903, unchanged}},
			[]int{10, 20, 20}, 3,
		},
		"there before, with nothing counted": {
			[]eventStep{{10, 5000, none, unchanged}, {20, 5100, 0, unchanged}, {30, 5200, 3, unchanged}},
			[]int{10, 10, 10}, 3,
		},
		"created while watched": {
			[]eventStep{{10, 100, none, created}, {20, 200, 9, unchanged}, {30, 300, 11, unchanged}},
			[]int{7, 7, 7}, 11,
		},
		"comes after the others have begun anew": {
			[]eventStep{{10, 100, none, created}, {20, 50, none, unchanged}, {30, 60, 9, unchanged}, {40, 70, 10, unchanged}},
			[]int{7, 10, 30, 30}, 1,
		},
		"comes when the others begin anew": {
			[]eventStep{{10, 100, none, created}, {20, 50, 9, unchanged}, {30, 60, 10, unchanged}},
			[]int{7, 20, 20}, 1,
		},
		"away for a while": {
			[]eventStep{{10, 100, 1, created}, {20, 200, none, unchanged}, {30, 300, 9, unchanged}},
			[]int{7, 7, 7}, 9,
		},
		"away while the others begin anew": {
			[]eventStep{{10, 100, 1, created}, {20, 50, none, unchanged}, {30, 60, 9, unchanged}, {40, 70, 10, unchanged}},
			[]int{7, 10, 30, 30}, 1 + 1,
		},
		"away while the interface is renamed": {
			[]eventStep{{10, 100, 1, created}, {20, 200, none, renamed}, {30, 300, 9, unchanged}, {40, 400, 10, unchanged}},
			[]int{7, 20, 30, 30}, 1 + 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			e := endpoint.Endpoint{ID: "1", Interface: "eth0"}
			var starts []int
			var events []point
			for _, s := range test.steps {
				s.change(&e)
				c := endpoint.Counters{Bytes: [2]uint64{uint64(s.bytes), 0}}
				if s.events != none {
					c.TCP = &endpoint.TCP{}
					c.TCP.Events[endpoint.Reset], c.TCP.HasEvent[endpoint.Reset] = uint64(s.events), true
				}
				md := b.at(s.at, endpointtest.Sight{Endpoint: e, Counters: c})
				starts = append(starts, bytesReceived(t, md).start)
				if s.events != none {
					events = append(events, firstPoint(t, md, "k8s.pod.network.tcp.connection.events"))
				}
			}
			require.Equal(t, test.starts, starts)
			require.Equal(t, test.added, added(t, events))
		})
	}
}

// What a counter can't be is no negative point, and what VFP doesn't count is no
// zero.
func TestRowOfOddCounters(t *testing.T) {
	var r row
	r.set(&endpoint.Counters{
		Packets: [2]uint64{math.MaxUint64, 1},
		TCP: &endpoint.TCP{
			Packets:   &[2][endpoint.NumTCPFlags]uint64{endpoint.Receive: {endpoint.FIN: 3}},
			HasPacket: [endpoint.NumTCPFlags]bool{endpoint.FIN: true},
		},
	})
	require.False(t, r.has(packetsColumn), "-1")
	require.EqualValues(t, 1, r.int64(packetsColumn+int(endpoint.Transmit)), "the other direction stays")
	require.EqualValues(t, 3, r.int64(flagColumnOf(int(endpoint.Receive), int(endpoint.FIN))))
	require.True(t, r.has(flagColumnOf(int(endpoint.Transmit), int(endpoint.FIN))))
	require.False(t, r.has(flagColumnOf(int(endpoint.Receive), int(endpoint.SYN))))
}

// HNS has -1 for a counter at times: a point is missing, and nothing was counted or
// reset by that.
func TestCounterThatIsUnknownForAWhile(t *testing.T) {
	for name, configure := range map[string]func(*metadata.MetricsBuilderConfig){
		"each direction": func(*metadata.MetricsBuilderConfig) {},
		"their sum": func(c *metadata.MetricsBuilderConfig) {
			c.Metrics.K8sPodNetworkIo.EnabledAttributes = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, configure)
			pod := windowsPod
			b.at(0, pod)
			start := b.series["2"].start
			pod.Bytes[endpoint.Receive] = math.MaxUint64
			for _, m := range b.at(10, pod).ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
				for _, dp := range m.Sum().DataPoints().All() {
					require.Less(t, dp.IntValue(), int64(5000), m.Name())
					require.GreaterOrEqual(t, dp.IntValue(), int64(0), m.Name())
					direction, _ := dp.Attributes().Get("network.io.direction")
					require.False(t, m.Name() == "k8s.pod.network.io" && direction.Str() != "transmit", "only what is known")
				}
			}
			pod.Bytes[endpoint.Receive] = 3100
			b.at(20, pod)
			require.Equal(t, start, b.series["2"].start)
		})
	}
}
