// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import "time"

// A tombstone says that a sandbox is dead, to sources that still list it.
type tombstone struct {
	source   uint8 // that saw it die
	at       int64
	deadline int64 // monotonic
}

// leastBurial is how long a dead sandbox is remembered at least. A source that
// goes on listing it keeps the knowledge alive beyond that.
const leastBurial = time.Minute

// bury ends every record of a dead sandbox, but for the one that owner's source
// has of it, which the caller ends, and for a later holder of the same id.
func (c *Cache) bury(source uint8, owner, sandbox string, at int64) {
	if sandbox == "" {
		return
	}
	_, mono := c.clock()
	deadline := mono + int64(max(c.grace, leastBurial))
	if t := c.tombstones.get(sandbox); t != nil {
		t.deadline = deadline
	} else {
		c.tombstones.set(sandbox, &tombstone{source: source, at: at, deadline: deadline})
		c.expiries.push(expiry{deadline: deadline, sandbox: sandbox})
	}
	var dead []*record
	for l := c.sandboxes.load(sandbox); l != nil; l = l.next {
		if r := l.holder; l.live() && !(r.stated && r.begin > at) {
			dead = append(dead, r)
		}
	}
	for _, r := range dead {
		c.release(r, at)
	}
	for _, r := range dead {
		// An end before this one can have put a successor in r's place.
		if r = c.owners[r.source].get(r.owner); r == nil || r.dead || r.source == source && r.owner == owner {
			continue
		}
		c.end(r, at)
		c.owners[r.source].set(r.owner, &record{source: r.source, owner: r.owner, sandbox: sandbox, dead: true, end: r.end})
	}
}

// buried says whether n is an old listing of a dead sandbox, and since when.
func (c *Cache) buried(n, old *record) bool {
	if n.sandbox == "" {
		return false
	}
	var died int64
	if t := c.tombstones.get(n.sandbox); t != nil {
		if t.source == n.source { // it takes back its word
			c.tombstones.delete(n.sandbox)
			return false
		}
		died = t.at
	} else if old != nil && old.dead && old.sandbox == n.sandbox {
		died = old.end
	} else {
		return false
	}
	if n.stated && n.begin > died {
		return false
	}
	n.end = died
	return true
}
