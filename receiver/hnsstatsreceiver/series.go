// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"net/netip"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
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
	container string

	start, last pcommon.Timestamp
	totals      totals
	seen        uint64 // the scrape that last had the endpoint
	options     [numOptions]metadata.ResourceMetricsOption
}

// The options that the builder is given with each endpoint. They are kept,
// for making them allocates.
const (
	resourceOption = iota
	startOption
	numOptions
)

// newSeries begins the series of an endpoint that is seen for the first time.
func newSeries(e *endpoint.Endpoint, now pcommon.Timestamp) *series {
	sr := &series{}
	sr.name(e)
	created := pcommon.NewTimestampFromTime(e.Created)
	if e.Created.IsZero() || created > now {
		created = now
	}
	sr.begin(created)
	return sr
}

func (sr *series) name(e *endpoint.Endpoint) {
	sr.iface, sr.address, sr.netns = e.Interface, firstAddress(e), e.NetNS
	sr.hns, sr.container = e.HNSEndpoint, e.Container
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
		sr.hns == e.HNSEndpoint && sr.container == e.Container
}

// rename goes on under the attributes that the endpoint has now.
func (sr *series) rename(e *endpoint.Endpoint, now pcommon.Timestamp) {
	sr.name(e)
	sr.begin(now)
}

func (sr *series) begin(start pcommon.Timestamp) {
	sr.start = start
	sr.options[startOption] = metadata.WithStartTimeOverride(start)
}

// advance takes in the counters of a scrape and finds out whether they go on
// from the last one's.
func (sr *series) advance(c *endpoint.Counters, now pcommon.Timestamp) {
	switch sr.totals.advance(c) {
	case restarted:
		sr.begin(sr.last)
	case confused:
		sr.begin(now)
	}
	if sr.start > now { // the clock was set back
		sr.begin(now)
	}
	sr.last = now
}

// progress is how a set of counters relates to the one before.
type progress uint8

const (
	continued progress = iota
	restarted          // all of them have begun anew
	confused           // some of them have
)

// totals are an endpoint's last counters, in one row.
type totals struct {
	values [numTotals]uint64
	known  [numTotals]bool
}

const numTotals = 5*int(endpoint.NumDirections) + int(endpoint.NumTCPEvents) +
	int(endpoint.NumDirections)*int(endpoint.NumTCPFlags)

// advance replaces the totals by those of c. What c lacks, because one of its
// parts could not be read, stays until it is there again.
func (t *totals) advance(c *endpoint.Counters) progress {
	a := advance{totals: t}
	a.pair(&c.Bytes)
	a.pair(&c.Packets)
	a.pair(&c.Dropped)
	a.pair(c.Errors)
	a.pair(c.ACLDropped)
	a.tcp(c.TCP)
	switch {
	case a.back == 0:
		return continued
	case a.ahead == 0:
		return restarted
	}
	return confused
}

// advance goes along the row.
type advance struct {
	*totals
	at          int
	back, ahead int // counters that went back, and those above zero that did not
}

func (a *advance) pair(p *[endpoint.NumDirections]uint64) {
	for d := range endpoint.NumDirections {
		if p == nil {
			a.at++
			continue
		}
		a.next(p[d])
	}
}

func (a *advance) tcp(t *endpoint.TCP) {
	if t == nil {
		return // the last of the row
	}
	for event, has := range t.HasEvent {
		if !has {
			a.at++
			continue
		}
		a.next(t.Events[event])
	}
	if t.Packets == nil {
		return
	}
	for d := range t.Packets {
		for f := range t.Packets[d] {
			a.next(t.Packets[d][f])
		}
	}
}

func (a *advance) next(value uint64) {
	before := a.values[a.at]
	switch {
	case !a.known[a.at], before == 0:
	case value < before:
		a.back++
	default:
		a.ahead++
	}
	a.values[a.at], a.known[a.at] = value, true
	a.at++
}
