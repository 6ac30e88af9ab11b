// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// Restore takes over entries of an earlier process. Until their sources have
// synced they answer, but only as long as nothing contradicts them: a fresh
// record of any source that holds one of their keys, and is not certainly the
// same pod, ends them. What ends without having been confirmed ends when it was
// last known to hold: who held the keys since then, nobody has seen.
//
// It is called before any source reports; an owner that is known already stays.
func (c *Cache) Restore(entries []Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for i := range entries {
		e := &entries[i]
		n := newRecord(&e.Record, uint8(e.Source))
		n.relabels = c.relabels[n.source]
		if n.kinds(e.Record.Identity.UID) == 0 || c.owners[e.Source].get(n.owner) != nil {
			continue
		}
		n.stated = false // the begin is this cache's, see Entry
		n.sure = min(e.Sure.UnixNano(), now)
		n.begin = min(e.Record.Begin.UnixNano(), n.sure)
		if c.unsynced == nil {
			c.unsynced = map[uint8]bool{}
		}
		c.unsynced[n.source] = true
		c.begin(n, &e.Record.Identity)
	}
}

// Confirm says that a source has told all that it knows: what was restored of it
// and is not confirmed by now, ends.
func (c *Cache) Confirm(source int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unsynced[uint8(source)] {
		return
	}
	c.now()
	var gone []string
	for owner, r := range c.owners[source].m {
		if r.unconfirmed() {
			gone = append(gone, owner)
		}
	}
	for _, owner := range gone {
		// An end before this one can have put a successor in the record's place.
		r := c.owners[source].get(owner)
		c.lose(r, r.sure)
	}
	delete(c.unsynced, uint8(source))
}

// Unconfirmed returns how many restored records of a source no word of it has
// confirmed yet.
func (c *Cache) Unconfirmed(source int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unsynced[uint8(source)] {
		return 0
	}
	for _, r := range c.owners[source].m {
		if r.unconfirmed() {
			n++
		}
	}
	return n
}

func (r *record) unconfirmed() bool { return !r.dead && r.sure != live }

// settle decides what a fresh record n makes of restored ones: it confirms the
// one of its own owner, if it says the same, and ends all that it contradicts.
// It returns what is then known of n's owner.
func (c *Cache) settle(old, n *record, id *podidentity.Identity) *record {
	if old != nil && old.unconfirmed() {
		if old.sameKeys(n, id) {
			old.sure, old.stated = live, n.stated
			c.changes++
		} else {
			c.lose(old, old.sure)
		}
	}
	var wrong []*record
	consider := func(l *lease) {
		for ; l != nil; l = l.next {
			r := l.holder
			if l.live() && r.unconfirmed() && !slices.Contains(wrong, r) && !r.pod.surely(n, id) {
				wrong = append(wrong, r)
			}
		}
	}
	consider(c.uids.load(id.UID))
	consider(c.sandboxes.load(n.sandbox))
	c.eachReusable(n, consider)
	for _, r := range wrong {
		// An end before this one can have put a successor in r's place.
		if r = c.owners[r.source].get(r.owner); r != nil {
			c.lose(r, r.sure)
		}
	}
	return c.owners[n.source].get(n.owner)
}

// surely says whether n is known to be this pod: by an id, or by its name where
// neither has a UID, and nothing says otherwise.
func (p *pod) surely(n *record, id *podidentity.Identity) bool {
	for _, m := range p.members {
		own := &m.own.identity
		if id.Name != "" && own.Name != "" && (own.Name != id.Name || own.Namespace != id.Namespace) {
			return false
		}
	}
	uid := p.uid()
	if uid != "" && id.UID != "" {
		return uid == id.UID
	}
	if n.sandbox != "" && p.hasSandbox() {
		return slices.ContainsFunc(p.members, func(m *record) bool { return m.sandbox == n.sandbox })
	}
	// By name alone it could be the next pod of that name, with another UID.
	return uid == "" && id.UID == "" && p.named(id)
}
