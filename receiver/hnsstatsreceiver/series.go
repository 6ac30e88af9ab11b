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
//   - Counters that are known to have begun at zero start at that moment, those
//     that can be read only later too.
//   - Counters that are met halfway start at their first point: a point that
//     is stamped with its own start adds nothing to a rate.
//   - When all counters have begun anew, they count since the last point.
//   - When only some have gone back, or the series is called something else,
//     what the others have counted was seen before: they are met halfway.
//   - Counters that come later than the others, or come back after the series
//     has started anew without them, may have counted for long: all are met
//     halfway, as a series has one start.
type series struct {
	// What the attributes of the endpoint's points are made of.
	iface     string
	address   netip.Addr
	netns     uint64
	hns       string
	hnsNS     string
	container string

	start, last pcommon.Timestamp
	// zeroed is set while start is a moment at which all counters were zero, also
	// those that have not been read yet.
	zeroed bool
	row    row
	totals totals // since start
	seen   uint64 // the scrape that last had the endpoint

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
		sr.start, sr.zeroed = created, true
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
		sr.restart(sr.last)
	case confused:
		sr.restart(now)
	case widened:
		if !sr.zeroed {
			sr.restart(now)
		}
	}
	if sr.start >= now { // it was renamed, or the clock was set back
		sr.restart(now)
	}
	sr.last = now
}

// restart starts the series anew with the counters of its row. Any other has an
// unknown past, of which the points before may have told.
func (sr *series) restart(at pcommon.Timestamp) {
	sr.start, sr.zeroed = at, false
	sr.totals.known = sr.row.present
}
