// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache answers which pod holds a key now, or held it at a given time,
// from what several sources report:
//
//	source ─ record ─┐  members   ┌─ lease ─ key (UID, sandbox, HNS endpoint,
//	source ─ record ─┴──▶ pod ◀───┴─ lease ─ key  namespace, address)
//
// A record is one source's word about one pod. It holds a lease on each of its
// keys; records of the same pod share a pod, whose identity is merged from them.
// Readers load a key's list of leases from a sharded map and the pod's identity
// from a pointer: both are replaced, never changed. Writers take turns.
package cache

import (
	"sync"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// Cache holds the leases of a node. All methods are safe for concurrent use.
type Cache struct {
	grace time.Duration
	clock Clock

	uids      index[string]
	sandboxes index[string]
	hns       index[guid]
	netns     index[uint64]
	addrs     addresses

	lookups counters
	misses  misses

	mu         sync.Mutex // guards all below, and every write to the indexes and pods
	owners     []table[string, *record]
	tombstones table[string, *tombstone]    // by sandbox
	graves     table[podName, []*tombstone] // those whose pod is known
	expiries   expiries
	rivalries  table[address, struct{}] // addresses that two pods may claim
	intern     interner
	pods       int
	changes    uint64         // of what a snapshot holds
	unsynced   map[uint8]bool // sources with restored records that have not said yet what holds
	relabels   map[uint8]bool // sources that see labels change
	offset     int64          // wall clock less monotonic clock, when last looked at
}

// A Clock returns the wall clock's time in nanoseconds since 1970, and that of a
// clock that is never set, from any start.
type Clock func() (wall, mono int64)

// SystemClock is the machine's clock.
func SystemClock() Clock {
	start := time.Now()
	return func() (int64, int64) {
		now := time.Now()
		return now.UnixNano(), int64(now.Sub(start))
	}
}

// New returns an empty cache for the given number of sources, which are named by
// their rank: a field that several sources know is taken from the lowest rank.
// Ended leases are kept for grace.
func New(sources int, grace time.Duration, clock Clock) *Cache {
	c := &Cache{
		grace:     grace,
		clock:     clock,
		uids:      newIndex[string](),
		sandboxes: newIndex[string](),
		hns:       newIndex[guid](),
		netns:     newIndex[uint64](),
		addrs:     newAddresses(),
		lookups:   newCounters(),
		misses:    newMisses(),
		owners:    make([]table[string, *record], sources),
		intern:    newInterner(),
	}
	wall, mono := clock()
	c.offset = wall - mono
	return c
}

// Relabels says that a source sees the labels and annotations of pods change.
// Others know them as they were when the pod began, so that those of a pod that
// it knows are taken from it alone, whatever its rank. It is called before the
// source reports.
func (c *Cache) Relabels(source int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relabels == nil {
		c.relabels = map[uint8]bool{}
	}
	c.relabels[uint8(source)] = true
}

// HasKey says whether anything could be resolved to r.
func HasKey(r *podidentity.Record) bool { return newRecord(r, 0).kinds(r.Identity.UID) != 0 }

// Put begins or updates one owner of a source. firsthand says that the caller
// itself saw the pod begin, so that it cannot be an old listing of a dead one.
func (c *Cache) Put(source int, r podidentity.Record, firsthand bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if firsthand {
		c.exhume(r.Sandbox)
	}
	c.put(uint8(source), &r, firsthand, now, now)
}

// Replace states all that a source knows at a time: owners that it leaves out
// have lost their keys.
func (c *Cache) Replace(source int, records []podidentity.Record, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	seen := now
	if !at.IsZero() {
		seen = min(at.UnixNano(), now)
	}
	listed := make(map[string]struct{}, len(records))
	for i := range records {
		listed[records[i].Owner] = struct{}{}
	}
	var lost []*record
	for owner, r := range c.owners[source].m {
		if _, ok := listed[owner]; !ok {
			lost = append(lost, r)
		}
	}
	for _, r := range lost {
		// An end before this one can have put a successor in r's place.
		c.lose(c.owners[source].get(r.owner), seen)
	}
	for i := range records {
		c.put(uint8(source), &records[i], false, seen, now)
	}
}

// End ends the lease of a source's owner. A terminal end says that the owner's
// sandbox is dead, which then holds for what the other sources say of it, too.
// An end from before a begin that the source itself stated is late news of an
// earlier holder of the owner's name, and ignored; a UID has no earlier holder.
func (c *Cache) End(source int, owner string, at time.Time, terminal bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	when := now
	if !at.IsZero() {
		when = min(at.UnixNano(), now)
	}
	r := c.owners[source].get(owner)
	if r != nil && r.stated && when < r.begin && (r.dead || owner != r.uid()) {
		return
	}
	if terminal {
		sandbox := owner
		if r != nil {
			sandbox = r.sandbox
		}
		c.bury(uint8(source), owner, sandbox, when)
	}
	// Burying the others can have put a successor in r's place.
	if r = c.owners[source].get(owner); r != nil {
		c.lose(r, when)
	}
}

// Pods returns how many pods hold leases now.
func (c *Cache) Pods() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods
}

// Lookups returns how many look-ups ended so.
func (c *Cache) Lookups(o podidentity.Outcome) int64 { return c.lookups.sum(o) }
