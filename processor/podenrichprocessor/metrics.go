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
		points, at := 0, timeSpan{}
		visitPoints(rm, func(_ pcommon.Map, ts pcommon.Timestamp) {
			points++
			at.add(ts)
		})
		b.resource(rm.Resource().Attributes(), points, at)
		if len(e.peers) > 0 {
			visitPoints(rm, b.item)
		}
	}
	e.counters.add(ctx, &b.tally)
	return md, nil
}

// visitPoints calls visit for each data point of a resource.
func visitPoints(rm pmetric.ResourceMetrics, visit func(pcommon.Map, pcommon.Timestamp)) {
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			switch m.Type() {
			case pmetric.MetricTypeGauge:
				visitEach(m.Gauge().DataPoints(), visit)
			case pmetric.MetricTypeSum:
				visitEach(m.Sum().DataPoints(), visit)
			case pmetric.MetricTypeHistogram:
				visitEach(m.Histogram().DataPoints(), visit)
			case pmetric.MetricTypeExponentialHistogram:
				visitEach(m.ExponentialHistogram().DataPoints(), visit)
			case pmetric.MetricTypeSummary:
				visitEach(m.Summary().DataPoints(), visit)
			}
		}
	}
}

// dataPoint is what data points of every type have.
type dataPoint interface {
	Attributes() pcommon.Map
	Timestamp() pcommon.Timestamp
}

func visitEach[P dataPoint, S interface {
	Len() int
	At(int) P
}](points S, visit func(pcommon.Map, pcommon.Timestamp)) {
	for i := range points.Len() {
		p := points.At(i)
		visit(p.Attributes(), p.Timestamp())
	}
}
