// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package ipam gives out addresses: one of each family at once, none twice, and
// none again before its cool-down is over. It is pure bookkeeping in memory;
// what must outlive the process is the caller's to keep.
//
// An allocation is one slot: a number that stands for the same position in the
// IPv4 and in the IPv6 prefixes. A bit a slot says whether it is taken.
package ipam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bits-and-blooms/bitset"
)

const (
	// reserved are the first addresses of every prefix, never given: the network's
	// own (IPv6: the subnet-router anycast address, RFC 4291 2.6.1) and the one
	// that by habit is a gateway's.
	reserved = 2
	// maxSlots bounds the memory (128 KB of bits) whatever the prefix's length.
	maxSlots = 1 << 20
)

// ErrFull means that no address is free. The error that wraps it counts those
// that are taken and those that are cooling down.
var ErrFull = errors.New("no address is free")

// block is the usable part of one prefix: count addresses from first, which are
// the slots from start.
type block struct {
	prefix netip.Prefix
	first  netip.Addr
	start  uint
	count  uint
}

// cooling is a slot that is free from until on.
type cooling struct {
	slot  uint
	until time.Time
}

// Pool gives out the addresses of some prefixes. It is safe for concurrent use.
type Pool struct {
	prefixes []netip.Prefix
	families [][]block // one entry a family, IPv4 first
	size     uint
	coolDown time.Duration

	mu     sync.Mutex
	taken  *bitset.BitSet // slots in use or cooling
	used   uint           // of them, slots in use
	next   uint           // where the next search begins
	cooled []cooling      // in the order in which they become free
	// shared counts the holders of a slot beyond the first: if the prefixes have
	// changed, what was one slot's IPv4 and IPv6 address can be in two slots now,
	// each with another holder's address of the other family.
	shared map[uint]int
}

// NewPool returns a pool over prefixes, which must not overlap: if both families
// are among them, every allocation has an address of each.
func NewPool(prefixes []netip.Prefix, coolDown time.Duration) (*Pool, error) {
	p := &Pool{prefixes: prefixes, coolDown: coolDown, size: maxSlots, shared: map[uint]int{}}
	for _, is4 := range []bool{true, false} {
		var blocks []block
		var size uint
		for _, prefix := range prefixes {
			if prefix.Addr().Is4() != is4 {
				continue
			}
			count := usable(prefix)
			if count == 0 {
				return nil, fmt.Errorf("prefix %s has no usable address", prefix)
			}
			count = min(count, maxSlots-size)
			blocks = append(blocks, block{prefix, add(prefix.Addr(), reserved), size, count})
			size += count
		}
		if blocks != nil {
			p.families = append(p.families, blocks)
			p.size = min(p.size, size)
		}
	}
	if p.families == nil {
		return nil, errors.New("no prefix")
	}
	p.taken = bitset.New(p.size)
	return p, nil
}

// usable is how many addresses of prefix can be given out: all but the reserved
// ones and, for IPv4, the last (the broadcast address).
func usable(prefix netip.Prefix) uint {
	host := prefix.Addr().BitLen() - prefix.Bits()
	if host > 20 { // more than maxSlots
		return maxSlots
	}
	count := 1<<host - reserved
	if prefix.Addr().Is4() {
		count--
	}
	return uint(max(count, 0))
}

// add returns the n-th address after addr, which must not carry beyond the low
// 32 or 64 bits: n is below 1<<20 and addr is the first of a prefix.
func add(addr netip.Addr, n uint) netip.Addr {
	if addr.Is4() {
		b := addr.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := addr.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+uint64(n))
	return netip.AddrFrom16(b)
}

// sub returns how far addr is after first, within the same prefix.
func sub(addr, first netip.Addr) uint64 {
	if addr.Is4() {
		a, f := addr.As4(), first.As4()
		return uint64(binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(f[:]))
	}
	a, f := addr.As16(), first.As16()
	if [8]byte(a[:8]) != [8]byte(f[:8]) {
		return 1 << 63 // beyond every block
	}
	return binary.BigEndian.Uint64(a[8:]) - binary.BigEndian.Uint64(f[8:])
}

// Allocate takes a free slot and returns its addresses, IPv4 first. Slots are
// taken in turn, so that an address rests as long as possible. The error wraps
// ErrFull.
func (p *Pool) Allocate(now time.Time) ([]netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thaw(now)
	if p.used+uint(len(p.cooled)) == p.size {
		return nil, p.full(now)
	}
	slot, ok := p.taken.NextClear(p.next)
	if !ok {
		slot, _ = p.taken.NextClear(0)
	}
	p.taken.Set(slot)
	p.used++
	p.next = slot + 1
	return p.addresses(slot), nil
}

func (p *Pool) full(now time.Time) error {
	err := fmt.Errorf("%w in %v: %d in use, %d cooling down", ErrFull, p.prefixes, p.used, len(p.cooled))
	if len(p.cooled) > 0 {
		err = fmt.Errorf("%w (the next one for %s)", err, p.cooled[0].until.Sub(now).Round(time.Millisecond))
	}
	return err
}

// thaw frees the slots whose cool-down is over.
func (p *Pool) thaw(now time.Time) {
	n := 0
	for n < len(p.cooled) && !p.cooled[n].until.After(now) {
		p.taken.Clear(p.cooled[n].slot)
		n++
	}
	if n == len(p.cooled) {
		p.cooled = nil
	} else {
		p.cooled = p.cooled[n:]
	}
}

func (p *Pool) addresses(slot uint) []netip.Addr {
	addrs := make([]netip.Addr, 0, 2)
	for _, blocks := range p.families {
		for _, b := range blocks {
			if slot < b.start+b.count {
				addrs = append(addrs, add(b.first, slot-b.start))
				break
			}
		}
	}
	return addrs
}

// Claim takes the slots of addresses that were given out earlier, out of their
// cool-down if need be. Addresses outside the prefixes, as after a change of
// configuration, take nothing.
func (p *Pool) Claim(addrs []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range p.slots(addrs) {
		if p.taken.Test(slot) && !p.warm(slot) {
			p.shared[slot]++
			continue
		}
		p.taken.Set(slot)
		p.used++
	}
}

// warm ends a slot's cool-down, and reports whether it was in one.
func (p *Pool) warm(slot uint) bool {
	i := slices.IndexFunc(p.cooled, func(c cooling) bool { return c.slot == slot })
	if i < 0 {
		return false
	}
	p.cooled = slices.Delete(p.cooled, i, i+1)
	return true
}

// Release gives back what Allocate or Claim took; it can be given out again when
// the cool-down has passed after now. Releases must come in the order of now.
func (p *Pool) Release(addrs []netip.Addr, now time.Time) {
	p.giveBack(addrs, func(slot uint) { p.cooled = append(p.cooled, cooling{slot, now.Add(p.coolDown)}) })
}

// Return gives back what Allocate took but nobody has used: it needs no cool-down.
func (p *Pool) Return(addrs []netip.Addr) {
	p.giveBack(addrs, func(slot uint) { p.taken.Clear(slot) })
}

func (p *Pool) giveBack(addrs []netip.Addr, free func(slot uint)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range p.slots(addrs) {
		switch p.shared[slot] {
		case 0:
			p.used--
			free(slot)
		case 1:
			delete(p.shared, slot)
		default:
			p.shared[slot]--
		}
	}
}

// slots are the slots that addrs stand for: one for the addresses of one
// allocation, more if the prefixes have changed since.
func (p *Pool) slots(addrs []netip.Addr) []uint {
	slots := make([]uint, 0, 1)
	for _, addr := range addrs {
		slot, ok := p.slot(addr)
		if ok && (len(slots) == 0 || slots[0] != slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

func (p *Pool) slot(addr netip.Addr) (uint, bool) {
	for _, blocks := range p.families {
		for _, b := range blocks {
			if b.first.BitLen() != addr.BitLen() {
				continue
			}
			slot := sub(addr, b.first)
			if b.prefix.Contains(addr) && slot < uint64(b.count) && b.start+uint(slot) < p.size {
				return b.start + uint(slot), true
			}
		}
	}
	return 0, false
}

// Counts are a pool's slots by state.
type Counts struct{ Used, Cooling, Free int }

// Counts returns how many slots are in which state.
func (p *Pool) Counts(now time.Time) Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thaw(now)
	return Counts{
		Used: int(p.used), Cooling: len(p.cooled),
		Free: int(p.size) - int(p.used) - len(p.cooled),
	}
}
