// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// mapIdentities is a FAKE whose look-up costs next to nothing, so that the
// processor's own cost is seen. test/peerbench measures with the real one.
type mapIdentities struct {
	*fakeIdentities
	byAddr map[netip.Addr]*podidentity.Identity
}

func (m mapIdentities) Resolve(q podidentity.Query) (*podidentity.Identity, podidentity.Outcome) {
	if id, ok := m.byAddr[q.Address]; ok {
		return id, podidentity.Found
	}
	return nil, podidentity.Unknown
}

func newMapIdentities(pods int) mapIdentities {
	m := mapIdentities{newFake(), map[netip.Addr]*podidentity.Identity{}}
	for i := range pods {
		m.byAddr[netip.MustParseAddr(benchAddr(i))] = &podidentity.Identity{
			Name: fmt.Sprintf("web-%d", i), Namespace: "shop", UID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i),
			Labels: map[string]string{"app": "web"},
		}
	}
	return m
}

func benchAddr(i int) string { return fmt.Sprintf("10.9.%d.%d", i>>8, i&255) }

// endpointMetrics is a batch as hnsstats makes it: a resource an endpoint, and
// four metrics of both directions.
func endpointMetrics(tb testing.TB, endpoints int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	for i := range endpoints {
		rm := md.ResourceMetrics().AppendEmpty()
		require.NoError(tb, rm.Resource().Attributes().FromRaw(attrs{"k8s.pod.ip": benchAddr(i), "linux.netns.inode": webNetNS + i}))
		sm := rm.ScopeMetrics().AppendEmpty()
		for _, name := range []string{"io", "packet.count", "packet.dropped", "errors"} {
			m := sm.Metrics().AppendEmpty()
			m.SetName("k8s.pod.network." + name)
			points := m.SetEmptySum().DataPoints()
			for _, direction := range []string{"receive", "transmit"} {
				p := points.AppendEmpty()
				p.SetTimestamp(pcommon.NewTimestampFromTime(epoch))
				p.Attributes().PutStr("network.interface.name", "eth0")
				p.Attributes().PutStr("network.io.direction", direction)
			}
		}
	}
	// As from a receiver: the attributes have no room to grow.
	raw, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(md)
	require.NoError(tb, err)
	md, err = (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(raw)
	require.NoError(tb, err)
	return md
}

func newBenchEnricher(tb testing.TB, change func(*Config)) *enricher {
	e := newBareEnricher(tb, newConfig(change))
	require.NoError(tb, e.start(tb.Context(), host{identityID: newMapIdentities(300)}))
	return e
}

func BenchmarkEndpoints(b *testing.B) {
	const endpoints = 300
	for _, bc := range []struct {
		name   string
		change func(*Config)
	}{
		{name: "names"},
		{name: "names, a label", change: func(c *Config) { c.Labels = []string{"app"} }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			e := newBenchEnricher(b, bc.change)
			source := endpointMetrics(b, endpoints)
			md := pmetric.NewMetrics()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				md = pmetric.NewMetrics()
				source.CopyTo(md)
				b.StartTimer()
				if _, err := e.processMetrics(b.Context(), md); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*endpoints), "ns/resource")
			if v, ok := md.ResourceMetrics().At(endpoints - 1).Resource().Attributes().Get(attrPodName); !ok || v.Str() != "web-299" {
				b.Fatal("not enriched")
			}
		})
	}
}

// TestAllocations holds a hit to pdata's own objects: the grown attribute
// slice and one value each for the name, the namespace and the UID.
func TestAllocations(t *testing.T) {
	const runs = 100
	e := newBenchEnricher(t, func(c *Config) { c.Peers = []PeerConfig{{Address: "k8s.pod.ip", Prefix: "source."}} })
	for _, tc := range []struct {
		name    string
		address string
		write   func(*batch, pcommon.Map)
		want    float64
	}{
		{name: "resource, hit", address: benchAddr(0), write: func(b *batch, m pcommon.Map) { b.resource(m, 1, timeSpan{}) }, want: 4},
		{name: "resource, miss", address: "10.200.0.1", write: func(b *batch, m pcommon.Map) { b.resource(m, 1, timeSpan{}) }, want: 0},
		{name: "peer, hit", address: benchAddr(0), write: func(b *batch, m pcommon.Map) { b.item(m, 0) }, want: 4},
		{name: "peer, miss", address: "10.200.0.1", write: func(b *batch, m pcommon.Map) { b.item(m, 0) }, want: 0},
		{name: "peer that is a host name", address: "db.shop.svc:5432", write: func(b *batch, m pcommon.Map) { b.item(m, 0) }, want: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			maps := make([]pcommon.Map, 1+runs) // AllocsPerRun calls once more
			for i := range maps {
				maps[i] = pcommon.NewMap()
				maps[i].EnsureCapacity(1)
				maps[i].PutStr("k8s.pod.ip", tc.address)
			}
			b := e.newBatch(t.Context())
			next := 0
			allocs := testing.AllocsPerRun(runs, func() {
				tc.write(&b, maps[next])
				next++
			})
			require.LessOrEqual(t, allocs, tc.want)
			require.Equal(t, tc.want > 0, maps[runs].Len() > 1, "written")
		})
	}
}
