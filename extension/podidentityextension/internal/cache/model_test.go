// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"slices"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// The model is the rules said plainly: a list of claims, searched from end to
// end. It knows which pod a record is about, where the cache has to find out.

// life is the truth about a pod.
type life struct {
	uid, sandbox, name string
	netns              uint64
	addrs              []netip.Addr
}

// claim is a source's word that a pod has a key in [begin, end).
type claim struct {
	pod        *life
	source     int
	key        any // string "u…" or "s…", uint64, netip.Addr
	begin, end int64
	deadline   int64 // of an ended claim, monotonic
}

type listing struct {
	pod      *life
	source   int
	stated   bool
	begin    int64
	keys     []any
	dead     bool
	died     int64
	released []any
	end      int64 // of one that has ended
	deadline int64 // the same, monotonic
}

// death is a sandbox's, and the addresses that it is known to have had.
type death struct {
	source       int
	at, deadline int64
	pod          *life // nil while no source has told
	addrs        []any
}

type model struct {
	clock  *fakeClock
	claims []*claim
	lists  [numSources]map[string]*listing
	ended  []*listing
	deaths map[string]*death
}

func newModel(clock *fakeClock) *model {
	m := &model{clock: clock, deaths: map[string]*death{}}
	for i := range m.lists {
		m.lists[i] = map[string]*listing{}
	}
	return m
}

// tells returns what a source would say of a pod: CRI all, the API server no
// sandbox, a file no UID.
func (p *life) tells(source int) podidentity.Record {
	r := podidentity.Record{
		Owner: p.sandbox, Sandbox: p.sandbox, NetNS: p.netns, Addresses: p.addrs,
		Identity: podidentity.Identity{Name: p.name, Namespace: "shop", UID: p.uid},
	}
	switch source {
	case k8s:
		r.Owner, r.Sandbox, r.NetNS = p.uid, "", 0
	case file:
		r.Identity.UID, r.NetNS = "", 0
	}
	return r
}

func keysOf(r *podidentity.Record) (keys []any) {
	if r.Identity.UID != "" {
		keys = append(keys, r.Identity.UID)
	}
	if r.Sandbox != "" {
		keys = append(keys, r.Sandbox)
	}
	if r.NetNS != 0 {
		keys = append(keys, r.NetNS)
	}
	for _, a := range r.Addresses {
		keys = append(keys, a)
	}
	return keys
}

func (m *model) put(source int, p *life, r podidentity.Record, seen int64) {
	now := m.clock.wall.Load()
	begin := seen
	if !r.Begin.IsZero() {
		begin = min(now, r.Begin.UnixNano())
	}
	old := m.lists[source][r.Owner]
	if r.Sandbox != "" {
		died, isDead := int64(0), false
		if d, ok := m.deaths[r.Sandbox]; ok && d.source == source {
			delete(m.deaths, r.Sandbox)
		} else if ok {
			died, isDead = d.at, true
		} else if old != nil && old.dead {
			died, isDead = old.died, true
		}
		if isDead && !(!r.Begin.IsZero() && begin > died) {
			if d, ok := m.deaths[r.Sandbox]; ok {
				d.learn(p, keysOf(&r))
				m.release(d, died)
			}
			if old != nil && !old.dead {
				m.end(source, old, died)
			}
			if old == nil && begin < died { // it had them until then
				l := &listing{pod: p, source: source, stated: true, begin: begin, keys: keysOf(&r)}
				m.claim(l, l.keys, begin)
				m.end(source, l, died)
			}
			if old == nil || !old.dead {
				m.lists[source][r.Owner] = &listing{pod: p, dead: true, died: died}
			}
			return
		}
	}
	l := &listing{pod: p, source: source, stated: !r.Begin.IsZero(), begin: begin}
	if old != nil && !old.dead {
		l = old
	}
	m.lists[source][r.Owner] = l
	var keys []any
	l.released = slices.DeleteFunc(l.released, func(k any) bool { return !slices.Contains(keysOf(&r), k) })
	for _, d := range m.deaths { // the API server's news can be late news of a dead sandbox
		if r.Sandbox == "" && d.pod == p {
			for _, k := range d.addrs {
				if slices.Contains(keysOf(&r), k) && !slices.Contains(l.released, k) {
					l.released = append(l.released, k)
					if l != old && begin < d.at {
						m.claim(l, []any{k}, begin)
						m.endClaim(source, p, k, d.at)
					}
				}
			}
		}
	}
	for _, k := range keysOf(&r) {
		if !slices.Contains(l.released, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if slices.Contains(l.keys, k) {
			continue
		}
		from := begin
		if l == old {
			from = now
		}
		m.claim(l, []any{k}, from)
	}
	for _, k := range l.keys {
		if !slices.Contains(keys, k) {
			m.endClaim(source, p, k, now)
		}
	}
	l.keys = keys
}

func (m *model) claim(l *listing, keys []any, begin int64) {
	for _, k := range keys {
		m.claims = append(m.claims, &claim{pod: l.pod, source: l.source, key: k, begin: begin, end: live})
	}
}

func (m *model) endClaim(source int, p *life, key any, at int64) {
	for _, c := range m.claims {
		if c.source != source || c.pod != p || c.key != key || c.end <= at {
			continue
		}
		if c.end == live {
			c.deadline = m.clock.mono.Load() + int64(grace) - max(0, m.clock.wall.Load()-max(at, c.begin))
		}
		c.end = max(at, c.begin) // an earlier claim of the same owner, too
	}
}

func (m *model) end(source int, l *listing, at int64) {
	if l.end == 0 {
		l.deadline = m.clock.mono.Load() + int64(grace) - max(0, m.clock.wall.Load()-max(at, l.begin))
		m.ended = append(m.ended, l)
	}
	l.end = max(at, l.begin)
	for _, k := range slices.Concat(l.keys, l.released) {
		m.endClaim(source, l.pod, k, at)
	}
}

func (m *model) lose(source int, owner string, at int64) {
	if l := m.lists[source][owner]; l != nil {
		if !l.dead {
			m.end(source, l, max(at, l.begin))
		}
		delete(m.lists[source], owner)
	}
}

func (d *death) learn(p *life, keys []any) {
	d.pod = p
	for _, k := range keys {
		if _, isAddr := k.(netip.Addr); isAddr && !slices.Contains(d.addrs, k) {
			d.addrs = append(d.addrs, k)
		}
	}
}

// release ends what the API server says of a dead sandbox's addresses.
func (m *model) release(d *death, at int64) {
	for _, k := range d.addrs {
		m.endClaim(k8s, d.pod, k, at)
		for _, y := range m.lists[k8s] {
			if y.pod == d.pod && slices.Contains(y.keys, k) {
				y.keys = slices.DeleteFunc(slices.Clone(y.keys), func(o any) bool { return o == k })
				y.released = append(y.released, k)
			}
		}
	}
}

func (m *model) bury(source int, owner, sandbox string, at int64) {
	d, known := m.deaths[sandbox]
	if !known {
		d = &death{source: source, at: at}
		m.deaths[sandbox] = d
	}
	d.at = min(d.at, at)
	d.deadline = m.clock.mono.Load() + int64(max(grace, leastBurial))
	var dying []*listing
	for s := range m.lists {
		for _, x := range m.lists[s] {
			if !x.dead && x.pod.tells(s).Sandbox == sandbox && !(x.stated && x.begin > at) {
				dying = append(dying, x)
				d.learn(x.pod, x.keys)
			}
		}
	}
	for _, x := range m.ended { // later than was known by then
		if x.pod.tells(x.source).Sandbox != sandbox || x.stated && x.begin > at {
			continue
		}
		d.learn(x.pod, x.keys)
		if x.end > at {
			m.end(x.source, x, at)
		}
	}
	m.release(d, at)
	for s := range m.lists {
		for o, x := range m.lists[s] {
			if slices.Contains(dying, x) && !(s == source && o == owner) {
				m.end(s, x, max(at, x.begin))
				m.lists[s][o] = &listing{pod: x.pod, source: s, dead: true, died: max(at, x.begin)}
			}
		}
	}
}

func (m *model) endOwner(source int, owner string, at int64, terminal bool) {
	l := m.lists[source][owner]
	if l != nil && l.stated && at < l.begin && source != k8s {
		return
	}
	sandbox := owner
	if l != nil {
		sandbox = l.pod.tells(source).Sandbox
	}
	if terminal && sandbox != "" {
		m.bury(source, owner, sandbox, at)
	}
	m.lose(source, owner, at)
}

func (m *model) expire() {
	mono := m.clock.mono.Load()
	m.claims = slices.DeleteFunc(m.claims, func(c *claim) bool { return c.end != live && c.deadline <= mono })
	m.ended = slices.DeleteFunc(m.ended, func(l *listing) bool { return l.deadline <= mono })
	for s, d := range m.deaths {
		if d.deadline <= mono {
			delete(m.deaths, s)
		}
	}
}

// ask returns who can have the key at t, and the outcome if that is one pod or
// none.
func (m *model) ask(key any, t int64) (holders []*life, outcome podidentity.Outcome) {
	_, unique := key.(string)
	var first *claim
	ended := false
	for _, c := range m.claims {
		if c.key != key {
			continue
		}
		if first == nil || c.begin < first.begin {
			first = c
		}
		if c.begin <= t && t < c.end {
			if !slices.Contains(holders, c.pod) {
				holders = append(holders, c.pod)
			}
		} else if t >= c.end {
			ended = true
		}
	}
	switch {
	case len(holders) == 1:
		return holders, podidentity.Found
	case len(holders) > 1:
		return holders, podidentity.Ambiguous
	case ended:
		return nil, podidentity.Ended
	case first != nil && unique:
		return []*life{first.pod}, podidentity.Found
	}
	return nil, podidentity.Unknown
}
