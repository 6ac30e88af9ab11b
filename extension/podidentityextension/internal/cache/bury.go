// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A tombstone says that a sandbox is dead, to sources that still list it; and
// which addresses of which pod died with it, to sources that know no sandboxes.
type tombstone struct {
	source   uint8 // that saw it die
	at       int64
	deadline int64 // monotonic
	pod      podName
	uid      string
	addrs    []address
}

type podName struct{ namespace, name string }

// leastBurial is how long a dead sandbox is remembered at least. A source that
// goes on listing it keeps the knowledge alive beyond that.
const leastBurial = time.Minute

// bury ends every record of a dead sandbox, but for the one that owner's source
// has of it, which the caller ends, and for a later holder of the same id. What
// ended later than at, because its source heard of it later, ends at at.
func (c *Cache) bury(source uint8, owner, sandbox string, at int64) {
	if sandbox == "" {
		return
	}
	_, mono := c.clock()
	t := c.tombstones.get(sandbox)
	if t == nil {
		t = &tombstone{source: source, at: at}
		c.tombstones.set(sandbox, t)
		t.deadline = mono + int64(max(c.grace, leastBurial))
		c.expiries.push(expiry{deadline: t.deadline, sandbox: sandbox})
	}
	t.at = min(t.at, at)
	t.deadline = mono + int64(max(c.grace, leastBurial))

	var dead, ended []*record
	for l := c.sandboxes.load(sandbox); l != nil; l = l.next {
		switch r := l.holder; {
		case r.stated && r.begin > at:
		case l.live():
			dead = append(dead, r)
		default:
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		c.inter(t, r.addrs, &r.view.Load().identity)
		c.shorten(r, at)
	}
	for _, r := range dead {
		c.inter(t, r.addrs, &r.view.Load().identity)
	}
	c.release(t, at)
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
func (c *Cache) buried(n, old *record, id *podidentity.Identity) bool {
	if n.sandbox == "" {
		return false
	}
	var died int64
	t := c.tombstones.get(n.sandbox)
	switch {
	case t != nil && t.source == n.source: // it takes back its word
		c.exhume(n.sandbox)
		return false
	case t != nil:
		died = t.at
	case old != nil && old.dead && old.sandbox == n.sandbox:
		died = old.end
	default:
		return false
	}
	if n.stated && n.begin > died {
		return false
	}
	n.end = died
	if t != nil {
		c.inter(t, n.addrs, id)
		c.release(t, died)
	}
	return true
}

// inter notes what is known of a dead sandbox: its pod and its addresses.
func (c *Cache) inter(t *tombstone, addrs []address, id *podidentity.Identity) {
	if t.pod.name == "" && id.Name != "" {
		t.pod = podName{id.Namespace, id.Name}
		c.graves.set(t.pod, append(slices.Clip(c.graves.get(t.pod)), t))
	}
	if t.uid == "" {
		t.uid = id.UID
	}
	t.addrs = append(t.addrs, without(addrs, t.addrs)...)
}

// exhume forgets that a sandbox is dead.
func (c *Cache) exhume(sandbox string) {
	t := c.tombstones.get(sandbox)
	if t == nil {
		return
	}
	c.tombstones.delete(sandbox)
	if t.pod.name == "" {
		return
	}
	if rest := without(c.graves.get(t.pod), []*tombstone{t}); len(rest) > 0 {
		c.graves.set(t.pod, rest)
	} else {
		c.graves.delete(t.pod)
	}
}

// of says whether the dead sandbox can have been the identity's pod's.
func (t *tombstone) of(id *podidentity.Identity) bool {
	return t.pod == podName{id.Namespace, id.Name} && (t.uid == "" || id.UID == "" || t.uid == id.UID)
}

// recall grants n, whose end is known when its source first tells of it, the keys
// that it had until then: nobody else held them.
func (c *Cache) recall(n *record, id *podidentity.Identity) {
	if n.begin >= n.end {
		return
	}
	c.changes++
	n.own = c.intern.view(id, n.kinds(id.UID))
	n.view.Store(n.own)
	n.pod = &pod{}
	c.grant(n)
	c.expireLater(n)
}

// recallReleased does the same for what n claims of dead sandboxes' addresses:
// the first of them to die since n began was the one that n is about.
func (c *Cache) recallReleased(n *record) {
	id := &n.own.identity
	for _, a := range n.released {
		end := n.begin
		for _, t := range c.graves.get(podName{id.Namespace, id.Name}) {
			if t.of(id) && slices.Contains(t.addrs, a) && t.at > n.begin && (end == n.begin || t.at < end) {
				end = t.at
			}
		}
		if end == n.begin {
			continue
		}
		past := &record{source: n.source, owner: n.owner, begin: n.begin, end: end, sure: live, addrs: []address{a}, own: n.own, pod: n.pod}
		past.view.Store(n.view.Load())
		c.intern.again(n.own)
		c.addrs.grant(c.addrs.key(a), past, past.begin)
		c.expireLater(past)
	}
}

// taken returns those addresses of n that went with a dead sandbox of n's pod. A
// record without a sandbox of its own is of whichever the pod had when its
// source looked: it may be late news of the dead one, and no name is better than
// a wrong one. A newer sandbox's own record has the addresses that are its.
func (c *Cache) taken(n *record, id *podidentity.Identity) (addrs []address) {
	if n.sandbox != "" {
		return nil
	}
	for _, t := range c.graves.get(podName{id.Namespace, id.Name}) {
		if t.of(id) {
			addrs = append(addrs, t.addrs...)
		}
	}
	return addrs
}

// release ends what records of the pod without a sandbox of their own claim, or
// claimed after at, of the addresses that a dead sandbox held: they were that
// sandbox's.
func (c *Cache) release(t *tombstone, at int64) {
	var holders []*record
	for _, a := range t.addrs {
		var late []*record
		for l := c.addrs.load(c.addrs.key(a)); l != nil; l = l.next {
			if r := l.holder; r.sandbox == "" && l.end > at && r.holds(a) && t.of(&r.view.Load().identity) {
				late = append(late, r)
				if l.live() && !slices.Contains(holders, r) {
					holders = append(holders, r)
				}
			}
		}
		for _, r := range late {
			c.addrs.end(c.addrs.key(a), r, at)
		}
	}
	for _, r := range holders {
		n := r.copy()
		n.addrs = without(r.addrs, t.addrs)
		n.released = append(slices.Clone(r.released), without(r.addrs, n.addrs)...)
		c.intern.again(n.own)
		c.rekey(r, n, at)
	}
}
