// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentity

import (
	"net/netip"
	"time"
)

// Query is what a caller knows of a pod: any of its keys, and a time. The zero
// value of a field means "not known". It is passed by value so that a look-up
// allocates nothing.
type Query struct {
	// UID is the pod's UID as Kubernetes wrote it.
	UID string
	// Sandbox is the id of the pod's sandbox (its pause container).
	Sandbox string
	// Container is the id of a container of the pod that may be its sandbox or
	// not. It is asked as Sandbox where that is empty, but says nothing when no
	// sandbox has it: it contradicts no weaker key.
	Container string
	// HNSEndpoint is the GUID of a Windows HNS endpoint, in any case.
	HNSEndpoint string
	// NetNS is the inode number of the pod's network namespace.
	NetNS uint64
	// Address is one of the pod's addresses. IPv4-mapped IPv6 and zones are
	// normalised by the resolver.
	Address netip.Addr
	// At is the time the data is about, usually its own timestamp. The zero
	// time means now.
	At time.Time
}

// Outcome says how a look-up ended.
type Outcome uint8

const (
	// Unknown: no lease on any of the query's keys.
	Unknown Outcome = iota
	// Found: exactly one pod holds the strongest known key at the query's time.
	Found
	// Ambiguous: two live pods claim the key; nothing is guessed.
	Ambiguous
	// Ended: the key's last lease ended before the query's time, or its grace
	// period is over.
	Ended
	// Mismatch: the pod that holds a weaker key (an address) is known to have
	// another value for one of the query's stronger keys, so it is another pod.
	Mismatch
	// NumOutcomes is the number of outcomes, for arrays indexed by Outcome.
	NumOutcomes
)

var outcomeNames = [NumOutcomes]string{"unknown", "found", "ambiguous", "ended", "mismatch"}

// String returns the outcome as it is written in the "outcome" metric attribute.
func (o Outcome) String() string {
	if o < NumOutcomes {
		return outcomeNames[o]
	}
	return "invalid"
}

// NormalizeAddr returns addr without IPv4-in-IPv6 mapping and zone, and false
// when the address can't tell pods apart: unspecified, loopback, multicast and
// link-local addresses are the same in every pod.
func NormalizeAddr(addr netip.Addr) (netip.Addr, bool) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsLoopback() ||
		addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return netip.Addr{}, false
	}
	return addr, true
}
