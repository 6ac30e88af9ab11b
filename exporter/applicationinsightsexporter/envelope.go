// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// What the service takes; beyond that it refuses the item. The limits are those of
// its data model: https://learn.microsoft.com/azure/azure-monitor/app/data-model-complete
const (
	maxName  = 150  // bytes of a dimension's name
	maxValue = 8192 // bytes of its value
)

// envelope is an item of the ingestion protocol. As in Application Insights' own
// SDKs, a metric's is named by the instrumentation key.
type envelope struct {
	Name string       `json:"name"`
	Time string       `json:"time"`
	IKey string       `json:"iKey"`
	Data envelopeData `json:"data"`
}

type envelopeData struct {
	BaseType string     `json:"baseType"`
	BaseData metricData `json:"baseData"`
}

type metricData struct {
	Ver        int               `json:"ver"`
	Metrics    []metricPoint     `json:"metrics"`
	Properties map[string]string `json:"properties"`
}

type metricPoint struct {
	Name  string  `json:"name"`
	Kind  string  `json:"kind"`
	Value float64 `json:"value"`
	Count int     `json:"count"`
}

var errCumulative = errors.New("is a cumulative sum, and Application Insights adds up what it gets: put the processor cumulative_to_delta before this exporter")

// eachPoint calls f with every point that can be sent, in an order that is always
// the same, and returns the others.
func eachPoint(metrics pmetric.Metrics, f func(pcommon.Resource, pmetric.Metric, pmetric.NumberDataPoint) error) (refused refusals, err error) {
	for _, rm := range metrics.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				points, err := pointsOf(m)
				if err != nil {
					why := unsupportedType
					if errors.Is(err, errCumulative) {
						why = cumulativeSum
					}
					refused.add(m.Name(), why, pointCount(m), err)
					continue
				}
				for _, p := range points.All() {
					switch {
					case !hasValue(p):
					case !isFinite(p):
						refused.add(m.Name(), notFinite, 1, fmt.Errorf("its value is %v, which can't be sent", p.DoubleValue()))
					default:
						if err := f(rm.Resource(), m, p); err != nil {
							return refused, err
						}
					}
				}
			}
		}
	}
	return refused, nil
}

// hasValue tells points from those that only say that a series has ended.
func hasValue(p pmetric.NumberDataPoint) bool {
	return !p.Flags().NoRecordedValue() && p.ValueType() != pmetric.NumberDataPointValueTypeEmpty
}

// isFinite says whether JSON has the point's value.
func isFinite(p pmetric.NumberDataPoint) bool {
	return p.ValueType() != pmetric.NumberDataPointValueTypeDouble || !math.IsNaN(p.DoubleValue()) && !math.IsInf(p.DoubleValue(), 0)
}

// pointCount counts the points of one metric, of any type.
func pointCount(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	default:
		return 0
	}
}

func pointsOf(m pmetric.Metric) (pmetric.NumberDataPointSlice, error) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints(), nil
	case pmetric.MetricTypeSum:
		if m.Sum().AggregationTemporality() == pmetric.AggregationTemporalityCumulative && m.Sum().IsMonotonic() {
			return pmetric.NumberDataPointSlice{}, errCumulative
		}
		return m.Sum().DataPoints(), nil
	default:
		return pmetric.NumberDataPointSlice{}, fmt.Errorf("is a %s: only sums and gauges can be sent", m.Type())
	}
}

// encode writes a line of JSON for every point that can be sent, and returns how
// many there are, and the others.
func encode(metrics pmetric.Metrics, instrumentationKey string) ([]byte, int, refusals, error) {
	var body bytes.Buffer
	n := 0
	encoder := json.NewEncoder(&body)
	refused, err := eachPoint(metrics, func(resource pcommon.Resource, m pmetric.Metric, p pmetric.NumberDataPoint) error {
		n++
		value := p.DoubleValue()
		if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
			value = float64(p.IntValue())
		}
		properties := map[string]string{}
		maps.Insert(properties, dimensions(resource.Attributes()))
		maps.Insert(properties, dimensions(p.Attributes()))
		return encoder.Encode(envelope{
			Name: "Microsoft.ApplicationInsights." + strings.ReplaceAll(instrumentationKey, "-", "") + ".Metric",
			Time: p.Timestamp().AsTime().Format(time.RFC3339Nano),
			IKey: instrumentationKey,
			Data: envelopeData{BaseType: "MetricData", BaseData: metricData{
				Ver: 2, Properties: properties,
				Metrics: []metricPoint{{Name: cut(m.Name(), maxName), Kind: "Measurement", Value: value, Count: 1}},
			}},
		})
	})
	return body.Bytes(), n, refused, err
}

// dimensions are attributes as the service takes them.
func dimensions(attributes pcommon.Map) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for key, value := range attributes.All() {
			if !yield(cut(key, maxName), cut(value.AsString(), maxValue)) {
				return
			}
		}
	}
}

// cut shortens a text to n bytes, between characters.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
