// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"math"
	"time"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// record is what is kept of an endpoint for as long as HNS lists it.
type record struct {
	id string // GUID in lower case

	// absent is when a list did not have it yet, zero if the first one had it or it
	// was there before, and visited when its counters were handed out last.
	absent, visited time.Time

	// As listed last.
	listed uint64 // number of the scrape
	state  endpointState
	v1     bool // by the V1 list

	// As read last; immutable, replaced on change.
	sum   uint64 // hash of the JSON that props were parsed from
	props *properties
	ep    *endpoint.Endpoint

	// port is the VFP port by the list of switch ports, which was asked for this
	// endpoint if portAsked, and had none of it, or no certain one, if port is "".
	port      string
	portAsked bool

	// Rotation: the number of the scrape that last asked HNS, and of the turn that
	// last ran vfpctrl, with the one before it. cut says that the end of its
	// scrape cut that run off.
	asked, vfpAsked, vfpBefore uint64
	cut                        bool

	// busy is when the call that still runs was made, zero if none does.
	busy time.Time
	// phase is how far the current scrape has come.
	phase phase
	err   error // of the current scrape, nil if none

	// The storage of what is handed to the visitor.
	counters endpoint.Counters
	acl      [endpoint.NumDirections]uint64
	packets  [endpoint.NumDirections][endpoint.NumTCPFlags]uint64
	tcp      endpoint.TCP
}

// phase of a record in one scrape.
type phase uint8

const (
	queued  phase = iota // not asked yet
	asking               // a worker has it
	late                 // a worker has it, and nobody waits for it
	parked               // counters read, the list of switch ports is awaited
	ready                // counters read, vfpctrl is next
	reading              // vfpctrl is run
	done                 // visited, failed, or no pod
)

// label names the endpoint for an operator.
func (r *record) label() string {
	if r.props != nil && r.props.name != "" {
		return r.id + " (" + r.props.name + ")"
	}
	return r.id
}

// untold is a moment at which an endpoint that was never visited was not there yet,
// zero if there is none or it was visited.
func (r *record) untold() time.Time {
	switch {
	case !r.visited.IsZero():
		return time.Time{}
	case r.ep != nil:
		return r.ep.Created
	}
	return r.absent
}

// failure is the endpoint's error.
func (r *record) failure(err error) *endpoint.Error {
	e := &endpoint.Error{Endpoint: r.label(), Err: err}
	if r.ep != nil {
		e.ID = r.ep.ID
	}
	return e
}

// learn takes properties. birth makes the identity of an endpoint that is seen for
// the first time, and says when at the earliest it came to be.
func (r *record) learn(p *properties, sum uint64, birth func(*record, *properties) (id string, created time.Time)) {
	r.sum = sum
	if r.props == p {
		return
	}
	if r.props == nil || r.props.mac != p.mac || r.props.port != p.port {
		r.port, r.portAsked = "", false
	}
	ep := &endpoint.Endpoint{
		Interface:    p.name,
		Addresses:    p.addresses,
		HNSEndpoint:  r.id,
		HNSNamespace: p.namespace,
	}
	if len(p.containers) > 0 {
		// The runtime attaches a pod's sandbox before its other containers.
		ep.Container = p.containers[0]
	}
	if r.ep != nil && r.props.mac == p.mac {
		ep.ID, ep.Created = r.ep.ID, r.ep.Created
	} else {
		ep.ID, ep.Created = birth(r, p)
	}
	r.props, r.ep = p, ep
}

// count takes HNS's counters. HNS counts in the endpoint's direction, which is
// the pod's.
func (r *record) count(s *statistics) {
	r.counters = endpoint.Counters{Bytes: s.bytes, Packets: s.packets, Dropped: s.dropped}
}

// countVFP takes VFP's counters.
func (r *record) countVFP(c *portCounters) {
	r.tcp = endpoint.TCP{}
	for f := range endpoint.NumTCPFlags {
		n := firstFlag + counter(f)
		if !c.has[n] {
			continue
		}
		r.tcp.Packets, r.tcp.HasPacket[f] = &r.packets, true
		for d := range endpoint.NumDirections {
			r.packets[d][f] = c.value[d][n]
		}
	}
	for e := endpoint.Verified; e <= endpoint.TimeWaitExpired; e++ {
		n := firstEvent + counter(e)
		// VFP has these for each direction, the metric has one number. With -1 in one
		// of them there is no sum.
		received, transmitted := c.value[endpoint.Receive][n], c.value[endpoint.Transmit][n]
		r.tcp.Events[e] = received + transmitted
		r.tcp.HasEvent[e] = c.has[n] && (received|transmitted) <= math.MaxInt64
	}
	r.counters.TCP = &r.tcp
	if c.has[aclDropped] {
		for d := range endpoint.NumDirections {
			r.acl[d] = c.value[d][aclDropped]
		}
		r.counters.ACLDropped = &r.acl
	}
}
