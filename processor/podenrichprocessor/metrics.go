// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func (e *enricher) processMetrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	if err := e.admit(ctx, md.DataPointCount); err != nil {
		return md, err
	}
	b := e.newBatch(ctx)
	for _, rm := range md.ResourceMetrics().All() {
		points, at := pointTimes(rm)
		b.resource(rm.Resource().Attributes(), points, at)
		if len(e.peers) > 0 {
			b.pointPeers(rm)
		}
	}
	e.counters.add(ctx, &b.tally)
	return md, nil
}

// pointTimes counts a resource's data points and returns the time they span.
func pointTimes(rm pmetric.ResourceMetrics) (points int, at timeSpan) {
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			switch m.Type() {
			case pmetric.MetricTypeGauge:
				points += addTimes(&at, m.Gauge().DataPoints())
			case pmetric.MetricTypeSum:
				points += addTimes(&at, m.Sum().DataPoints())
			case pmetric.MetricTypeHistogram:
				points += addTimes(&at, m.Histogram().DataPoints())
			case pmetric.MetricTypeExponentialHistogram:
				points += addTimes(&at, m.ExponentialHistogram().DataPoints())
			case pmetric.MetricTypeSummary:
				points += addTimes(&at, m.Summary().DataPoints())
			}
		}
	}
	return points, at
}

// pointPeers writes the peers of a resource's data points.
func (b *batch) pointPeers(rm pmetric.ResourceMetrics) {
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			switch m.Type() {
			case pmetric.MetricTypeGauge:
				addPeers(b, m.Gauge().DataPoints())
			case pmetric.MetricTypeSum:
				addPeers(b, m.Sum().DataPoints())
			case pmetric.MetricTypeHistogram:
				addPeers(b, m.Histogram().DataPoints())
			case pmetric.MetricTypeExponentialHistogram:
				addPeers(b, m.ExponentialHistogram().DataPoints())
			case pmetric.MetricTypeSummary:
				addPeers(b, m.Summary().DataPoints())
			}
		}
	}
}

// dataPoint and dataPoints are what data points of every type have. They are
// constraints only: a slice in an interface would be allocated.
type dataPoint interface {
	Attributes() pcommon.Map
	Timestamp() pcommon.Timestamp
}

type dataPoints[P dataPoint] interface {
	Len() int
	At(int) P
}

func addTimes[P dataPoint, S dataPoints[P]](at *timeSpan, points S) int {
	n := points.Len()
	for i := range n {
		at.add(points.At(i).Timestamp())
	}
	return n
}

func addPeers[P dataPoint, S dataPoints[P]](b *batch, points S) {
	for i := range points.Len() {
		p := points.At(i)
		b.item(p.Attributes(), p.Timestamp())
	}
}
