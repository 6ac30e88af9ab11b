// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

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
	e := newBenchEnricher(t, nil)
	source := endpointMetrics(t, 1)
	resources := make([]pcommon.Map, 101)
	for i := range resources {
		resources[i] = pcommon.NewMap()
		source.ResourceMetrics().At(0).Resource().Attributes().CopyTo(resources[i])
	}
	b := e.newBatch(t.Context())
	var at timeSpan
	at.add(stamp(time.Now()))
	next := 0
	allocs := testing.AllocsPerRun(len(resources)-1, func() {
		b.resource(resources[next], 1, at)
		next++
	})
	require.EqualValues(t, len(resources), b.tally.resources[found])
	require.LessOrEqual(t, allocs, 4.0)
}
