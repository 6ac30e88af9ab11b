// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"math"
	"slices"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// put begins, updates or repeats r. seen is when the source saw it.
func (c *Cache) put(source uint8, r *podidentity.Record, firsthand bool, seen, now int64) {
	n := newRecord(r, source)
	n.relabels = c.relabels[source]
	n.begin = seen
	if n.stated {
		n.begin = min(r.Begin.UnixNano(), now) // a begin to come is a clock that was set back
	}
	old := c.owners[source].get(r.Owner)
	if c.buried(n, old, &r.Identity) {
		switch {
		case old == nil:
			c.recall(n, &r.Identity)
		case old.dead:
			return
		default:
			c.end(old, n.end)
		}
		n.dead = true
		c.owners[source].set(r.Owner, n)
		return
	}
	if len(c.unsynced) > 0 {
		old = c.settle(old, n, &r.Identity)
	}
	var taken []address
	if !firsthand {
		taken = c.taken(n, &r.Identity)
	}
	if old == nil || old.dead {
		n.yield(taken)
		c.begin(n, &r.Identity)
		c.recallReleased(n)
		return
	}
	said := n.addrs
	n.yield(append(taken, old.released...))
	switch {
	case old.sameKeys(n, &r.Identity):
		old.released = n.released
		c.relabel(old, &r.Identity)
	case old.extends(n, &r.Identity):
		n.own = c.intern.view(&r.Identity, n.kinds(r.Identity.UID))
		c.rekey(old, n, now)
	default: // another pod under the same owner's name
		if n.stated {
			seen = n.begin
		}
		c.end(old, seen)
		n.addrs, n.released = said, nil
		n.yield(taken)
		c.begin(n, &r.Identity)
	}
}

// begin gives n its keys, strongest first, so that a reader who misses a strong
// key of a new pod misses the weaker ones too.
func (c *Cache) begin(n *record, id *podidentity.Identity) {
	c.changes++
	n.own = c.intern.view(id, n.kinds(id.UID))
	c.owners[n.source].set(n.owner, n)
	c.join(n)
	c.grant(n)
	c.noteRivals(n)
}

func (c *Cache) grant(n *record) {
	if uid := n.uid(); uid != "" {
		c.uids.grant(uid, n, n.begin)
	}
	if n.sandbox != "" {
		c.sandboxes.grant(n.sandbox, n, n.begin)
	}
	for _, g := range n.hns {
		c.hns.grant(g, n, n.begin)
	}
	if n.netns != 0 {
		c.netns.grant(n.netns, n, n.begin)
	}
	for _, a := range n.addrs {
		c.addrs.grant(c.addrs.key(a), n, n.begin)
	}
}

// lose takes r from its source's owners.
func (c *Cache) lose(r *record, at int64) {
	c.owners[r.source].delete(r.owner)
	if !r.dead {
		c.end(r, at)
	}
}

// end ends r: its leases stay for the grace period, its pod goes on with the
// other sources' records.
func (c *Cache) end(r *record, at int64) {
	c.changes++
	at = min(at, r.sure)
	r.end = max(at, r.begin)
	c.endLeases(r, at)
	c.expireLater(r)

	p := r.pod
	anchor := p.anchor()
	p.remove(r)
	switch {
	case len(p.members) == 0:
		c.pods--
	case p.holds(anchor):
		p.refresh()
	default:
		c.refound(p, r.end)
	}
	c.rejoin(r)
}

func (c *Cache) endLeases(r *record, at int64) {
	if uid := r.uid(); uid != "" {
		c.uids.end(uid, r, at)
	}
	if r.sandbox != "" {
		c.sandboxes.end(r.sandbox, r, at)
	}
	for _, g := range r.hns {
		c.hns.end(g, r, at)
	}
	if r.netns != 0 {
		c.netns.end(r.netns, r, at)
	}
	for _, a := range r.addrs {
		c.addrs.end(c.addrs.key(a), r, at)
	}
	for _, a := range r.released { // which it may have lost earlier than was known
		c.addrs.end(c.addrs.key(a), r, at)
	}
}

// shorten gives an ended record an earlier end.
func (c *Cache) shorten(r *record, at int64) {
	if r.end <= at {
		return
	}
	c.changes++
	r.end = max(at, r.begin)
	c.endLeases(r, at)
}

// refound makes new pods of those members that a pod has left when the id that
// made it this pod is gone: whom they turn out to belong to must not become the
// name of the old pod's data.
func (c *Cache) refound(p *pod, at int64) {
	rest := p.members
	p.members = nil
	c.pods--
	for _, m := range rest {
		m.end = max(at, m.begin)
	}
	for _, m := range rest {
		n := m.copy() // with its begin, which is the source's word; its leases have their own
		c.owners[n.source].set(n.owner, n)
		c.join(n)
		if uid := n.uid(); uid != "" {
			c.uids.pass(uid, m, n, m.end)
		}
		if n.sandbox != "" {
			c.sandboxes.pass(n.sandbox, m, n, m.end)
		}
		for _, g := range n.hns {
			c.hns.pass(g, m, n, m.end)
		}
		if n.netns != 0 {
			c.netns.pass(n.netns, m, n, m.end)
		}
		for _, a := range n.addrs {
			c.addrs.pass(c.addrs.key(a), m, n, m.end)
		}
		c.intern.again(n.own)
		c.expireLater(m)
	}
}

// rekey replaces a live record by its successor in the same pod. Keys that both
// have keep their begin, new ones begin now, lost ones end now. The first keys
// that can pass from pod to pod begin when the source says that they did, if it
// says so: it saw the pod before these were there, and can tell of them late.
func (c *Cache) rekey(old, n *record, now int64) {
	c.changes++
	begin := now
	if n.stated && n.begin > old.begin && len(old.addrs) == 0 && len(old.released) == 0 && old.netns == 0 && len(old.hns) == 0 {
		begin = n.begin
	}
	n.begin, n.stated, old.end = old.begin, old.stated, now
	p := old.pod
	p.remove(old)
	p.add(n)
	c.owners[n.source].set(n.owner, n)
	c.join(n)
	// UID and sandbox stay or become known; they were this pod's from the start.
	if uid := n.uid(); uid != "" {
		replaceKey(c.uids, []string{uid}, old, n, n.begin)
	}
	if n.sandbox != "" {
		replaceKey(c.sandboxes, []string{n.sandbox}, old, n, n.begin)
	}
	replaceKey(c.hns, n.hns, old, n, begin)
	if n.netns != 0 {
		replaceKey(c.netns, []uint64{n.netns}, old, n, begin)
	}
	for _, a := range n.addrs {
		replaceKey(c.addrs.index, []uint64{c.addrs.key(a)}, old, n, begin)
	}
	lost := false
	for _, g := range old.hns {
		if !slices.Contains(n.hns, g) {
			c.hns.end(g, old, now)
			lost = true
		}
	}
	if old.netns != 0 && old.netns != n.netns {
		c.netns.end(old.netns, old, now)
		lost = true
	}
	for _, a := range old.addrs {
		if !slices.Contains(n.addrs, a) {
			c.addrs.end(c.addrs.key(a), old, now)
			lost = true
		}
	}
	if lost {
		c.expireLater(old)
		c.rejoin(old)
	} else {
		c.intern.release(old.own)
	}
	c.noteRivals(n)
}

// replaceKey makes n the holder of keys: in old's place where old held them.
func replaceKey[K comparable](x index[K], keys []K, old, n *record, begin int64) {
	for _, k := range keys {
		if x.held(k, old) {
			x.pass(k, old, n, math.MinInt64)
		} else {
			x.grant(k, n, begin)
		}
	}
}

// relabel takes over labels and annotations that changed.
func (c *Cache) relabel(r *record, id *podidentity.Identity) {
	if maps.Equal(r.own.identity.Labels, id.Labels) && maps.Equal(r.own.identity.Annotations, id.Annotations) {
		return
	}
	c.changes++
	old := r.own
	r.own = c.intern.view(id, old.kinds)
	c.intern.release(old)
	r.pod.refresh()
}

// rejoin lets the other holders of r's keys look again for their pod: what kept
// them apart may have been r.
func (c *Cache) rejoin(r *record) {
	c.eachReusable(r, func(l *lease) {
		for ; l != nil; l = l.next {
			if l.live() {
				c.joinByName(l.holder.pod, l.holder)
			}
		}
	})
}

// without returns list less those in gone.
func without[T comparable](list, gone []T) []T {
	if len(gone) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return slices.Contains(gone, x) })
}
