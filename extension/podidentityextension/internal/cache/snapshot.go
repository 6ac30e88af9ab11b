// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// An Entry is what one source says of one pod, outside the cache. It shares the
// identity's maps with the cache: they must not be changed.
type Entry struct {
	Source int // its rank
	// Record has the keys that the pod holds. Its Begin is since when it is known
	// to hold all of them.
	Record podidentity.Record
	// Sure is when the record was last known to hold, for a restored one that its
	// source has not confirmed, else zero.
	Sure time.Time
}

// batchSize is how many records are copied in one hold of the lock, some tens of
// microseconds: writers wait no longer.
const batchSize = 256

// Changes counts the changes to what Entries returns.
func (c *Cache) Changes() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Entries calls yield with every live record, source by source, until it returns
// false. No lock is held meanwhile: each record is as it was at some moment
// during the call.
func (c *Cache) Entries(yield func(Entry) bool) {
	entries := make([]Entry, 0, batchSize)
	c.batches(func(r *record) { entries = append(entries, c.entry(r)) }, func() bool {
		for _, e := range entries {
			if !yield(e) {
				return false
			}
		}
		entries = entries[:0]
		return true
	})
}

// batches calls each with every live record, with the lock held, and after every
// batch of them done, without it, until that returns false.
func (c *Cache) batches(each func(*record), done func() bool) {
	for source := range c.owners {
		c.mu.Lock()
		owners := slices.Collect(maps.Keys(c.owners[source].m))
		c.mu.Unlock()
		for batch := range slices.Chunk(owners, batchSize) {
			c.mu.Lock()
			for _, owner := range batch {
				if r := c.owners[source].get(owner); r != nil && !r.dead {
					each(r)
				}
			}
			c.mu.Unlock()
			if !done() {
				return
			}
		}
	}
}

// entry copies r. It needs the lock.
func (c *Cache) entry(r *record) Entry {
	begin := r.begin
	c.eachReusable(r, func(l *lease) {
		for ; l != nil; l = l.next {
			if l.holder == r && l.end == live {
				begin = max(begin, l.begin)
			}
		}
	})
	e := Entry{Source: int(r.source), Record: podidentity.Record{
		Owner: r.owner, Identity: r.own.identity, Sandbox: r.sandbox, NetNS: r.netns, Begin: time.Unix(0, begin),
	}}
	if r.sure != live {
		e.Sure = time.Unix(0, r.sure)
	}
	for _, g := range r.hns {
		e.Record.HNSEndpoints = append(e.Record.HNSEndpoints, g.String())
	}
	for _, a := range r.addrs {
		e.Record.Addresses = append(e.Record.Addresses, a.netip())
	}
	return e
}

func (a address) netip() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
	return netip.AddrFrom16(b).Unmap()
}

func (g guid) String() string {
	s := hex.EncodeToString(g[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
