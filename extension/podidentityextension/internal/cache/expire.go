// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"container/heap"
	"time"
)

// An expiry is an ended record, or else a tombstone, that is to be forgotten.
type expiry struct {
	deadline int64 // monotonic, so that setting the wall clock changes nothing
	record   *record
	sandbox  string
}

// expiries is a heap, the next one first.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].deadline < e[j].deadline }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(expiry)) }

func (e *expiries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = expiry{}
	*e = (*e)[:last]
	return x
}

func (e *expiries) push(x expiry) { heap.Push(e, x) }

// Expire frees the leases whose grace period is over and notices a clock that
// was set back. It returns how long to wait for the next one, at most limit.
func (c *Cache) Expire(limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	_, mono := c.clock()
	for len(c.expiries) > 0 {
		if wait := c.expiries[0].deadline - mono; wait > 0 {
			return min(limit, time.Duration(wait))
		}
		c.expire(heap.Pop(&c.expiries).(expiry), mono)
	}
	c.expiries = nil // the room that a great many took
	return limit
}

func (c *Cache) expire(e expiry, mono int64) {
	if r := e.record; r != nil {
		c.drop(r)
		return
	}
	t := c.tombstones.get(e.sandbox)
	switch {
	case t == nil:
	case t.deadline > mono:
		c.expiries.push(expiry{deadline: t.deadline, sandbox: e.sandbox})
	default:
		c.exhume(e.sandbox)
	}
}

// expireLater queues an ended record to be forgotten when its grace period is
// over.
func (c *Cache) expireLater(r *record) {
	wall, mono := c.clock()
	left := int64(c.grace) - max(0, wall-r.end)
	c.expiries.push(expiry{deadline: mono + left, record: r})
}

// drop forgets an ended record's leases.
func (c *Cache) drop(r *record) {
	if uid := r.uid(); uid != "" {
		c.uids.drop(uid, r)
	}
	if r.sandbox != "" {
		c.sandboxes.drop(r.sandbox, r)
	}
	for _, g := range r.hns {
		c.hns.drop(g, r)
	}
	if r.netns != 0 {
		c.netns.drop(r.netns, r)
	}
	for _, a := range r.addrs {
		c.addrs.drop(c.addrs.key(a), r)
	}
	c.intern.release(r.own)
}

// stepBack is how far the wall clock must fall behind the monotonic one between
// two looks to count as set back. Less can be the time between reading the two.
const stepBack = int64(500 * time.Millisecond)

// now returns the wall clock's time, after noticing whether it was set back.
func (c *Cache) now() int64 {
	wall, mono := c.clock()
	if offset := wall - mono; offset < c.offset-stepBack {
		c.setBack(wall)
		c.offset = offset
	} else {
		c.offset = offset
	}
	return wall
}

// setBack makes the leases fit a wall clock that was set back to now. Hours that
// come a second time cannot be told from the first: what ended in them is
// forgotten, and no live lease begins in the future.
func (c *Cache) setBack(now int64) {
	kept := c.expiries[:0]
	for _, e := range c.expiries {
		if e.record != nil {
			c.drop(e.record)
		} else {
			kept = append(kept, e)
		}
	}
	clear(c.expiries[len(kept):])
	c.expiries = kept
	heap.Init(&c.expiries)
	for _, t := range c.tombstones.m {
		t.at = min(t.at, now)
	}
	for i := range c.owners {
		for _, r := range c.owners[i].m {
			if r.dead {
				r.end = min(r.end, now)
				continue
			}
			r.begin = min(r.begin, now)
			if r.sure != live {
				r.sure = min(r.sure, now)
			}
			if uid := r.uid(); uid != "" {
				c.uids.setBack(uid, now)
			}
			if r.sandbox != "" {
				c.sandboxes.setBack(r.sandbox, now)
			}
			for _, g := range r.hns {
				c.hns.setBack(g, now)
			}
			if r.netns != 0 {
				c.netns.setBack(r.netns, now)
			}
			for _, a := range r.addrs {
				c.addrs.setBack(c.addrs.key(a), now)
			}
		}
	}
}
