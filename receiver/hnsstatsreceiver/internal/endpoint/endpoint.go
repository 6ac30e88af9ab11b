// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint is the model that every platform's source fills and the
// scraper turns into metrics: pod network endpoints and their counters. It is
// pure data and knows nothing of pods.
package endpoint

import (
	"context"
	"net/netip"
	"time"
)

// Endpoint is one pod-side network interface. It is immutable once a Source has
// handed it out; a change makes a new one.
type Endpoint struct {
	// ID tells this endpoint from every other one of the source's lifetime; a
	// re-created endpoint has a new ID. It is not exported.
	ID string
	// Interface is the interface's name inside the pod ("eth0"), or the HNS
	// endpoint's name.
	Interface string
	// Addresses are all the interface's addresses that tell pods apart, the
	// first one first (IPv4 before IPv6).
	Addresses []netip.Addr
	// NetNS is the inode of the pod's network namespace, 0 if unknown.
	NetNS uint64
	// HNSEndpoint is the HNS endpoint's GUID in lower case, "" on Linux.
	HNSEndpoint string
	// HNSNamespace is the GUID of the endpoint's HCN namespace in lower case, ""
	// on Linux or if it has none.
	HNSNamespace string
	// Container is the id of the sandbox that shares the endpoint, "" if unknown.
	Container string
	// Created is a moment at which the endpoint's counters were known to be
	// zero: when the kernel or HNS says that it came to be, or a look at the
	// platform that did not have it yet. It is zero where the endpoint was there
	// before the source looked: what it counted until then has no start.
	Created time.Time
}

// Direction is the pod's: what it receives, what it transmits.
type Direction uint8

const (
	Receive Direction = iota
	Transmit
	NumDirections
)

// Counters are an endpoint's totals since it was created. Bytes, packets and
// drops are always there; what a platform lacks stays nil. A total of more than
// 63 bits is one that the platform doesn't know: HNS has -1 for it.
type Counters struct {
	Bytes, Packets, Dropped [NumDirections]uint64
	// Errors are the link's receive and transmit errors; nil on Windows.
	Errors *[NumDirections]uint64
	// ACLDropped are packets dropped by a VFP access list; nil without VFP.
	ACLDropped *[NumDirections]uint64
	// TCP is nil unless the source reads it.
	TCP *TCP
}

// TCP holds TCP totals, each one nil-able by family: VFP fills Packets and
// Events, Linux fills Events only.
type TCP struct {
	// Packets counts segments by flag; HasPacket says which of the flags the
	// platform counts.
	Packets   *[NumDirections][NumTCPFlags]uint64
	HasPacket [NumTCPFlags]bool
	// Events counts connection events; HasEvent says which of them the
	// platform has.
	Events   [NumTCPEvents]uint64
	HasEvent [NumTCPEvents]bool
}

// TCPFlag is the value of the tcp.flag attribute.
type TCPFlag uint8

const (
	SYN TCPFlag = iota
	SYNACK
	FIN
	RST
	NumTCPFlags
)

// TCPEvent is the value of the event attribute of
// k8s.pod.network.tcp.connection.events.
type TCPEvent uint8

const (
	Verified TCPEvent = iota
	TimedOut
	Reset
	ResetSYN
	ClosedFIN
	HalfOpenTimeout
	TimeWaitExpired
	ActiveOpen
	PassiveOpen
	AttemptFailed
	NumTCPEvents
)

// Source reads the endpoints of one platform. Its methods are called from one
// goroutine at a time.
type Source interface {
	// Start prepares the source; an error says which right or service is
	// missing and how to give it.
	Start(ctx context.Context) error
	// Read calls visit once for each endpoint present. Endpoint and Counters
	// are valid during the call only, unless documented otherwise by the
	// source. The error joins the failures of single endpoints (each an
	// *Error): an endpoint of which nothing could be read is not visited, one
	// that lacks optional counters is visited without them, all others are
	// visited with everything. Any other error means that nothing was read.
	Read(ctx context.Context, visit func(*Endpoint, *Counters)) error
	// Close ends every goroutine and handle; it is safe twice and without Start.
	Close() error
}

// Error is the failure of one endpoint in one read.
type Error struct {
	// Endpoint names the endpoint as an operator knows it (interface or GUID).
	Endpoint string
	// ID is the endpoint's ID, by which it is known to be still there though it
	// could not be read. It is "" if the endpoint was never visited, or if the
	// failure is of several that were all visited in this Read.
	ID  string
	Err error
}

func (e *Error) Error() string { return "endpoint " + e.Endpoint + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
