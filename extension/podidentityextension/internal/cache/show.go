// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A Pod is what all sources say of one pod that holds keys now.
type Pod struct {
	Identity podidentity.Identity
	Entries  []Entry // the strongest source first
}

// A Lease says that a pod held a key, in one source's word.
type Lease struct {
	Source   int
	Owner    string
	Identity podidentity.Identity // merged from all sources; as it was at the end of an ended lease
	Begin    time.Time
	End      time.Time // zero while it has not ended
	Sure     time.Time // as in Entry
}

// Find returns those of the pods that match accepts, in the order of their
// names: limit of them after the first offset, and how many there are. Like
// Entries, it keeps nobody waiting.
func (c *Cache) Find(match func(*podidentity.Identity) bool, offset, limit int) (pods []Pod, total int) {
	type hit struct {
		identity *podidentity.Identity
		pod      *pod
		record   *record
	}
	var hits []hit
	seen := map[*pod]bool{}
	c.batches(func(r *record) {
		id := &r.view.Load().identity
		if !seen[r.pod] && match(id) {
			seen[r.pod] = true
			hits = append(hits, hit{id, r.pod, r})
		}
	}, func() bool { return true })
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.identity.Namespace, b.identity.Namespace), cmp.Compare(a.identity.Name, b.identity.Name),
			cmp.Compare(a.identity.UID, b.identity.UID), cmp.Compare(a.record.owner, b.record.owner))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range hits[min(offset, len(hits)):min(offset+limit, len(hits))] {
		if len(h.pod.members) > 0 { // it can have ended since
			pods = append(pods, c.show(h.pod))
		}
	}
	return pods, len(hits)
}

// Holding returns the pods that hold any of the query's keys now.
func (c *Cache) Holding(q podidentity.Query) (pods []Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var seen []*pod
	c.eachLease(q, func(l *lease) {
		if l.live() && !slices.Contains(seen, l.holder.pod) {
			seen = append(seen, l.holder.pod)
			pods = append(pods, c.show(l.holder.pod))
		}
	})
	return pods
}

// Leases returns the leases on any of the query's keys, those that have not
// ended first, then the latest.
func (c *Cache) Leases(q podidentity.Query) (leases []Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eachLease(q, func(l *lease) {
		s := Lease{Source: int(l.holder.source), Owner: l.holder.owner, Identity: l.holder.view.Load().identity, Begin: time.Unix(0, l.begin)}
		if l.end != live {
			s.End = time.Unix(0, l.end)
		} else if l.holder.sure != live {
			s.Sure = time.Unix(0, l.holder.sure)
		}
		leases = append(leases, s)
	})
	slices.SortStableFunc(leases, func(a, b Lease) int {
		switch {
		case a.End.IsZero() != b.End.IsZero():
			return map[bool]int{true: -1, false: 1}[a.End.IsZero()]
		case a.End.Equal(b.End):
			return cmp.Compare(a.Source, b.Source)
		}
		return b.End.Compare(a.End)
	})
	return leases
}

// Peek answers like Resolve, but is not counted as a look-up.
func (c *Cache) Peek(q podidentity.Query) podidentity.Outcome {
	_, outcome := c.resolve(&q, present)
	return outcome
}

func (c *Cache) eachLease(q podidentity.Query, f func(*lease)) {
	each := func(l *lease) {
		for ; l != nil; l = l.next {
			f(l)
		}
	}
	if q.UID != "" {
		each(c.uids.load(q.UID))
	}
	if q.Sandbox != "" {
		each(c.sandboxes.load(q.Sandbox))
	}
	if g, ok := parseGUID(q.HNSEndpoint); ok {
		each(c.hns.load(g))
	}
	if q.NetNS != 0 {
		each(c.netns.load(q.NetNS))
	}
	if addr, ok := podidentity.NormalizeAddr(q.Address); ok {
		a := addressOf(addr)
		for l := c.addrs.load(c.addrs.key(a)); l != nil; l = l.next {
			if l.holder.holds(a) { // else it has the same fingerprint
				f(l)
			}
		}
	}
}

// show copies p. It needs the lock.
func (c *Cache) show(p *pod) Pod {
	s := Pod{Identity: p.members[0].view.Load().identity}
	for _, m := range p.members {
		s.Entries = append(s.Entries, c.entry(m))
	}
	return s
}
