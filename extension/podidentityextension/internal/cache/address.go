// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
)

// An address is one of either family, IPv4 in its mapped form: it has neither a
// zone nor a second form.
type address struct{ hi, lo uint64 }

// addressOf reads an address out of its binary form by halves. As16 gives the
// same, but an array that is written in halves and read as one makes the
// processor wait for as long as all the rest takes.
func addressOf(a netip.Addr) address {
	if a.Is4() {
		b := a.As4()
		return address{lo: 0xffff<<32 | uint64(binary.BigEndian.Uint32(b[:]))}
	}
	if a.Zone() != "" {
		a = a.WithZone("")
	}
	var room [16]byte
	b, _ := a.AppendBinary(room[:0]) // never fails
	return address{hi: binary.BigEndian.Uint64(b[:8]), lo: binary.BigEndian.Uint64(b[8:16])}
}

func (a address) is4() bool { return a.hi == 0 && a.lo>>32 == 0xffff }

// addresses is the index of addresses. It is keyed by integers, whose look-up
// takes half of a struct's time: an IPv4 address itself, and a fingerprint of an
// IPv6 address with the top bit set. Two addresses with the same fingerprint
// share a list of leases, whose holders tell them apart.
type addresses struct {
	index[uint64]
	seed address
}

func newAddresses() addresses {
	return addresses{index: newIndex[uint64](), seed: address{hi: rand.Uint64(), lo: rand.Uint64()}}
}

func (x *addresses) key(a address) uint64 {
	if a.is4() {
		return a.lo
	}
	hi, lo := bits.Mul64(a.hi^x.seed.hi, a.lo^x.seed.lo)
	return (hi ^ lo) | 1<<63
}
