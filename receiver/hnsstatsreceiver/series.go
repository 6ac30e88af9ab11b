// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"net/netip"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// series is what has to be known of an endpoint from one scrape to the next,
// so that every point says since when its value counts. The rules are those of
// OpenTelemetry's data model for resets and gaps:
//
//   - Counters that are known to have begun at zero start at that moment.
//   - Counters that are met halfway start at their first point: a point that
//     is stamped with its own start adds nothing to a rate.
//   - When all counters have begun anew, they count since the last point.
//   - When only some have gone back, or the series is called something else,
//     what the others have counted was seen before: they are met halfway.
type series struct {
	// What the attributes of the endpoint's points are made of.
	iface     string
	address   netip.Addr
	netns     uint64
	hns       string
	hnsNS     string
	container string

	start, last pcommon.Timestamp
	row         row
	totals      totals
	seen        uint64 // the scrape that last had the endpoint

	// How its metrics are made, for the columns that it has; see describe.
	columns  columns
	plan     *plan
	resource pcommon.Resource
}

// newSeries begins the series of an endpoint that is seen for the first time.
func newSeries(e *endpoint.Endpoint, now pcommon.Timestamp) *series {
	sr := &series{start: now}
	sr.name(e)
	if created := pcommon.NewTimestampFromTime(e.Created); !e.Created.IsZero() && created < now {
		sr.start = created
	}
	return sr
}

func (sr *series) name(e *endpoint.Endpoint) {
	sr.iface, sr.address, sr.netns = e.Interface, firstAddress(e), e.NetNS
	sr.hns, sr.hnsNS, sr.container = e.HNSEndpoint, e.HNSNamespace, e.Container
}

func firstAddress(e *endpoint.Endpoint) netip.Addr {
	if len(e.Addresses) == 0 {
		return netip.Addr{}
	}
	return e.Addresses[0]
}

// isOf reports whether the endpoint's points still have the same attributes.
func (sr *series) isOf(e *endpoint.Endpoint) bool {
	return sr.iface == e.Interface && sr.address == firstAddress(e) && sr.netns == e.NetNS &&
		sr.hns == e.HNSEndpoint && sr.hnsNS == e.HNSNamespace && sr.container == e.Container
}

// rename goes on under the attributes that the endpoint has now.
func (sr *series) rename(e *endpoint.Endpoint, now pcommon.Timestamp) {
	sr.name(e)
	sr.start = now
	sr.columns = 0
}

// advance takes in the counters of a scrape and finds out whether they go on
// from the last one's.
func (sr *series) advance(c *endpoint.Counters, now pcommon.Timestamp) {
	sr.row.set(c)
	switch sr.totals.advance(&sr.row) {
	case restarted:
		sr.start = sr.last
	case confused:
		sr.start = now
	}
	if sr.start > now { // the clock was set back
		sr.start = now
	}
	sr.last = now
}
