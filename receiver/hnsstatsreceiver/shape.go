// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// shape is the metrics of an endpoint without numbers and times, as the
// generated builder makes them of the configuration. A scrape copies it and
// fills it in, which costs half of what the builder does.
type shape struct {
	columns columns // that it has points for
	// metrics has no point with a value: setting one allocates anyway.
	metrics pmetric.ResourceMetrics
	// points are the columns of the points, in the metrics' order.
	points []int
	// empty is set when the configuration leaves nothing of the endpoint.
	empty bool
}

// newShape has the builder record the number of each column in place of its
// value.
func (s *endpointScraper) newShape(e *endpoint.Endpoint, present columns) *shape {
	numbers := row{present: present}
	for column := range numbers.values {
		numbers.values[column] = uint64(column)
	}
	s.record(e, &numbers, 0, 0)
	made := s.builder.Emit().ResourceMetrics()
	sh := &shape{columns: present, empty: made.Len() == 0}
	if sh.empty {
		return sh
	}
	sh.metrics = made.At(0)
	for _, m := range sh.metrics.ScopeMetrics().At(0).Metrics().All() {
		points := m.Sum().DataPoints()
		bare := pmetric.NewNumberDataPointSlice()
		bare.EnsureCapacity(points.Len())
		for _, p := range points.All() {
			sh.points = append(sh.points, int(p.IntValue()))
			p.Attributes().CopyTo(bare.AppendEmpty().Attributes())
		}
		bare.CopyTo(points)
	}
	return sh
}

// fill appends the endpoint's metrics with the values of a row.
func (sh *shape) fill(to pmetric.ResourceMetricsSlice, r *row, start, now pcommon.Timestamp) {
	if sh.empty {
		return
	}
	filled := to.AppendEmpty()
	sh.metrics.CopyTo(filled)
	metrics := filled.ScopeMetrics().At(0).Metrics()
	next := 0
	for i := range metrics.Len() {
		points := metrics.At(i).Sum().DataPoints()
		for j := range points.Len() {
			p := points.At(j)
			p.SetStartTimestamp(start)
			p.SetTimestamp(now)
			p.SetIntValue(int64(r.values[sh.points[next]]))
			next++
		}
	}
}

// reaggregates reports whether the configuration leaves attributes out, so that
// the builder makes one point of several columns. Then a shape cannot know
// what its points are made of.
func reaggregates(cfg metadata.MetricsConfig) bool {
	all := metadata.NewDefaultMetricsBuilderConfig().Metrics
	return len(cfg.K8sPodNetworkErrors.EnabledAttributes) != len(all.K8sPodNetworkErrors.EnabledAttributes) ||
		len(cfg.K8sPodNetworkIo.EnabledAttributes) != len(all.K8sPodNetworkIo.EnabledAttributes) ||
		len(cfg.K8sPodNetworkPacketCount.EnabledAttributes) != len(all.K8sPodNetworkPacketCount.EnabledAttributes) ||
		len(cfg.K8sPodNetworkPacketDropped.EnabledAttributes) != len(all.K8sPodNetworkPacketDropped.EnabledAttributes) ||
		len(cfg.K8sPodNetworkTCPConnectionEvents.EnabledAttributes) != len(all.K8sPodNetworkTCPConnectionEvents.EnabledAttributes) ||
		len(cfg.K8sPodNetworkTCPPacketCount.EnabledAttributes) != len(all.K8sPodNetworkTCPPacketCount.EnabledAttributes)
}
