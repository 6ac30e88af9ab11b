// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// plan is how the metrics of all endpoints with the same columns are made, as
// the generated builder does by the configuration. Following it takes no object
// that pdata itself does not need, and half the time of the builder.
type plan struct {
	scopeName, scopeVersion string
	sums                    []plannedSum
}

type plannedSum struct {
	name, description, unit string
	monotonic               bool
	temporality             pmetric.AggregationTemporality
	points                  []plannedPoint
}

type plannedPoint struct {
	column     int
	attributes []plannedAttribute
}

// plannedAttribute has no value of its own if it is the interface's name.
type plannedAttribute struct {
	key, value  string
	isInterface bool
}

// describe has the builder make an endpoint's metrics once, with the number of
// each column in place of its value, and takes over what it made of them.
func (s *endpointScraper) describe(sr *series, e *endpoint.Endpoint) {
	numbers := row{present: sr.row.present}
	for column := range numbers.values {
		numbers.values[column] = uint64(column)
	}
	s.record(e, &numbers, 0, 0)
	made := s.builder.Emit().ResourceMetrics()
	sr.columns, sr.plan = sr.row.present, nil
	if made.Len() == 0 {
		return // the configuration leaves nothing of it
	}
	sr.resource = made.At(0).Resource()
	sr.plan = s.plans[sr.columns]
	if sr.plan == nil {
		sr.plan = newPlan(made.At(0).ScopeMetrics().At(0))
		s.plans[sr.columns] = sr.plan
	}
}

func newPlan(made pmetric.ScopeMetrics) *plan {
	p := &plan{scopeName: made.Scope().Name(), scopeVersion: made.Scope().Version()}
	for _, m := range made.Metrics().All() {
		sum := plannedSum{
			name: m.Name(), description: m.Description(), unit: m.Unit(),
			monotonic: m.Sum().IsMonotonic(), temporality: m.Sum().AggregationTemporality(),
		}
		for _, dp := range m.Sum().DataPoints().All() {
			point := plannedPoint{column: int(dp.IntValue())}
			for key, value := range dp.Attributes().All() {
				point.attributes = append(point.attributes, plannedAttribute{
					key: key, value: value.Str(), isInterface: key == "network.interface.name",
				})
			}
			sum.points = append(sum.points, point)
		}
		p.sums = append(p.sums, sum)
	}
	return p
}

// follow appends the endpoint's metrics with the values of its row.
func (sr *series) follow(to pmetric.ResourceMetricsSlice, now pcommon.Timestamp) {
	if sr.plan == nil {
		return
	}
	rm := to.AppendEmpty()
	sr.resource.CopyTo(rm.Resource())
	rm.ScopeMetrics().EnsureCapacity(1)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(sr.plan.scopeName)
	sm.Scope().SetVersion(sr.plan.scopeVersion)
	metrics := sm.Metrics()
	metrics.EnsureCapacity(len(sr.plan.sums))
	for i := range sr.plan.sums {
		sr.plan.sums[i].follow(metrics.AppendEmpty(), sr, now)
	}
}

func (ps *plannedSum) follow(m pmetric.Metric, sr *series, now pcommon.Timestamp) {
	m.SetName(ps.name)
	m.SetDescription(ps.description)
	m.SetUnit(ps.unit)
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(ps.monotonic)
	sum.SetAggregationTemporality(ps.temporality)
	points := sum.DataPoints()
	points.EnsureCapacity(len(ps.points))
	for i := range ps.points {
		pp := &ps.points[i]
		dp := points.AppendEmpty()
		dp.SetStartTimestamp(sr.start)
		dp.SetTimestamp(now)
		dp.SetIntValue(sr.row.int64(pp.column))
		attributes := dp.Attributes()
		attributes.EnsureCapacity(len(pp.attributes))
		for j := range pp.attributes {
			a := &pp.attributes[j]
			if a.isInterface {
				attributes.PutStr(a.key, sr.iface)
			} else {
				attributes.PutStr(a.key, a.value)
			}
		}
	}
}
