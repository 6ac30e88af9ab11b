// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// The audit's synthetic sources: what each one tells the extension of the node,
// and when. They are FAKES of the real sources in their bad moments.

type auditSource int

const (
	auditCRI auditSource = iota
	auditK8s
	auditFile
	numAuditSources
)

// tells says whether the source knows keys of this kind.
func (s auditSource) tells(key any) bool {
	switch key.(type) {
	case podUID:
		return s != auditFile
	case sandboxID:
		return s != auditK8s
	case uint64:
		return s == auditCRI
	}
	return true
}

var auditNames = [numAuditSources]string{"auditcri", "auditk8s", "auditfile"}

// conduct is how well the sources of a node work.
type conduct struct {
	name     string
	lag      [numAuditSources]time.Duration // at most; the file's is how long between two looks
	lose     int                            // of a hundred events, until the next list
	repeat   int                            // of a hundred events come twice, the second time late
	stale    int                            // of a hundred looks at the file, how many still see what is gone
	relistIn time.Duration
}

var conducts = []conduct{
	{name: "fresh", relistIn: 10 * time.Second},
	{name: "late", lag: [numAuditSources]time.Duration{300 * time.Millisecond, 3 * time.Second, time.Second}, repeat: 5, relistIn: 10 * time.Second},
	{name: "losing", lag: [numAuditSources]time.Duration{50 * time.Millisecond, time.Second, time.Second}, lose: 15, repeat: 5, relistIn: 5 * time.Second},
	{name: "disagreeing", lag: [numAuditSources]time.Duration{100 * time.Millisecond, 5 * time.Second, time.Second}, lose: 5, repeat: 15, stale: 40, relistIn: 5 * time.Second},
}

// A telling is an event on its way from a source to the extension.
type telling struct {
	due    int64
	source auditSource
	what   happening
	life   *tenancy
	at     int64 // when the source says it was, 0 where it does not
}

// told is a source's word that a tenancy has a key in [begin, end): its own word
// only, whatever others said.
type told struct {
	source     auditSource
	life       *tenancy
	key        any
	begin, end int64
}

// standsAt says whether the source's word is that the tenancy had the key at a
// time, and nothing that the extension was told by now refutes it: a first-hand
// end of the sandbox, before that time. The file knows sandboxes. The API server
// knows pods: its word is about a sandbox of the pod that had the address, once
// somebody has said which pod's it was and with which addresses, be it after its
// end. A UID outlives the sandbox.
func (c *told) standsAt(at int64) bool {
	if at < c.begin || c.end <= at {
		return false
	}
	if _, isUID := c.key.(podUID); isUID {
		return true
	}
	if c.source != auditK8s {
		return at < c.life.died
	}
	return !slices.ContainsFunc(c.life.pod.lives, func(l *tenancy) bool {
		return l.heard && l.died <= at && (l == c.life || l.died > c.begin && slices.Contains(l.keys(auditK8s), c.key))
	})
}

// auditFeeds brings what happens to the extension, and keeps account of it.
type auditFeeds struct {
	conduct
	rnd     *rand.Rand
	node    *auditNode
	sinks   [numAuditSources]*scripted
	queue   []telling
	last    map[string]int64 // when the last event of a source's owner is due: one watch keeps their order
	owners  [numAuditSources]map[string]*tenancy
	next    [numAuditSources]int64 // list
	claims  map[any][]*told
	changed bool // since the last look at the file
	log     []string
}

func (f *auditFeeds) say(format string, args ...any) {
	if len(f.log) > 4000 {
		f.log = slices.Clone(f.log[2000:])
	}
	f.log = append(f.log, fmt.Sprintf("%9.4fs ", seconds(f.node.now))+fmt.Sprintf(format, args...))
}

func seconds(at int64) float64 { return float64(at-auditEpoch.UnixNano()) / 1e9 }

func (l *tenancy) String() string {
	return fmt.Sprintf("%s %s %s netns=%d %v", l.pod.name, l.pod.uid, l.sandbox, l.netns, l.addrs)
}

// happened queues what the event sources say of it.
func (f *auditFeeds) happened(l *tenancy, what happening) {
	f.say("%s: %v", what, l)
	f.changed = true
	for s := auditCRI; s <= auditK8s; s++ {
		if s == auditK8s && what == restarted || f.rnd.IntN(100) < f.lose {
			continue // the API server tells of the new sandbox only
		}
		e := telling{due: f.node.now, source: s, what: what, life: l}
		if f.lag[s] > 0 {
			e.due += f.rnd.Int64N(int64(f.lag[s]))
		}
		if f.rnd.IntN(2) == 0 {
			e.at = f.node.now
		}
		owner := auditNames[s] + l.record(s).Owner
		e.due = max(e.due, f.last[owner])
		f.last[owner] = e.due
		f.queue = append(f.queue, e)
		if what != began && f.rnd.IntN(100) < f.repeat && !(s == auditK8s && f.last[owner] > e.due) {
			e.due += f.rnd.Int64N(int64(10 * time.Second))
			f.queue = append(f.queue, e)
		}
	}
}

// deliver brings what is due, in order, and lists where it is time.
func (f *auditFeeds) deliver() {
	slices.SortStableFunc(f.queue, func(a, b telling) int { return int(min(1, max(-1, a.due-b.due))) })
	for len(f.queue) > 0 && f.queue[0].due <= f.node.now {
		e := f.queue[0]
		f.queue = f.queue[1:]
		f.bring(e)
	}
	for s := range numAuditSources {
		if f.node.now >= f.next[s] && (s != auditFile || f.lag[s] > 0 || f.changed) {
			f.list(s)
			every := int64(f.relistIn)
			if s == auditFile {
				every, f.changed = int64(f.lag[s]), false
			}
			f.next[s] = f.node.now + every/2 + f.rnd.Int64N(every/2+1)
		}
	}
}

func (f *auditFeeds) bring(e telling) {
	sink := f.sinks[e.source].sink
	r := e.life.record(e.source)
	if e.what == began {
		f.say("  %s puts %v", auditNames[e.source], e.life)
		sink.Put(r)
		f.noted(e.source, e.life, f.node.now)
		return
	}
	at, when := e.at, time.Time{}
	if at == 0 {
		at = f.node.now
	} else {
		when = time.Unix(0, at)
	}
	f.say("  %s ends %s at %.4fs", auditNames[e.source], r.Owner, seconds(at))
	sink.End(r.Owner, when, true)
	if e.source == auditCRI {
		e.life.died = min(e.life.died, at)
		for _, k := range e.life.keys(e.source) {
			f.close(e.source, e.life, k, at) // it can have told a later end before
		}
	}
	f.lost(e.source, r.Owner, at)
}

// list has a source say all that it knows. A list of events' source is newer
// than the events on their way, of which only ends still come.
func (f *auditFeeds) list(source auditSource) {
	var records []podidentity.Record
	var lives []*tenancy
	add := func(l *tenancy) {
		if r := l.record(source); !slices.ContainsFunc(records, func(o podidentity.Record) bool { return o.Owner == r.Owner }) {
			records, lives = append(records, r), append(lives, l)
		}
	}
	for _, l := range f.node.live {
		add(l)
	}
	if source == auditFile {
		for _, owner := range slices.Sorted(maps.Keys(f.owners[source])) { // the seed must decide
			if l := f.owners[source][owner]; l.end != never && l.end > f.node.now-int64(5*time.Second) && f.rnd.IntN(100) < f.stale {
				add(l)
			}
		}
	}
	f.queue = slices.DeleteFunc(f.queue, func(e telling) bool { return e.source == source && e.what == began })
	f.say("  %s lists %d pods", auditNames[source], len(records))
	if source == auditCRI {
		f.endUnlisted(lives)
	}
	f.sinks[source].sink.Replace(records, time.Unix(0, f.node.now))
	for owner := range f.owners[source] {
		if !slices.ContainsFunc(records, func(r podidentity.Record) bool { return r.Owner == owner }) {
			f.lost(source, owner, f.node.now)
		}
	}
	for _, l := range lives {
		f.noted(source, l, f.node.now)
	}
}

// endUnlisted has the CRI source end the sandboxes that are gone, as the real one
// does at every list, and those of the last seconds, which the runtime lists as
// not ready for a while, at every list again.
func (f *auditFeeds) endUnlisted(listed []*tenancy) {
	var gone []*tenancy
	for _, l := range f.owners[auditCRI] {
		if !slices.Contains(listed, l) {
			gone = append(gone, l)
		}
	}
	for _, l := range f.node.recent {
		if l.end > f.node.now-int64(10*time.Second) && l.end <= f.node.now && !slices.Contains(gone, l) {
			gone = append(gone, l)
		}
	}
	slices.SortFunc(gone, func(a, b *tenancy) int { return strings.Compare(a.sandbox, b.sandbox) })
	for _, l := range gone {
		f.bring(telling{source: auditCRI, what: stopped, life: l})
	}
}

// noted keeps account of a source's word that a tenancy is there.
func (f *auditFeeds) noted(source auditSource, l *tenancy, seen int64) {
	owner := l.record(source).Owner
	before := f.owners[source][owner]
	if source != auditK8s {
		l.heard = true
	}
	f.owners[source][owner] = l
	if before == l {
		return
	}
	begin := seen
	if l.stated[source] && before == nil {
		begin = l.begin
	}
	keys := l.keys(source)
	for _, k := range keys {
		if before != nil && slices.Contains(before.keys(source), k) {
			continue
		}
		c := slices.DeleteFunc(f.claims[k], func(c *told) bool { return c.end < f.node.now-4*auditReach })
		f.claims[k] = append(c, &told{source: source, life: l, key: k, begin: begin, end: never})
	}
	if before == nil {
		return
	}
	for _, k := range before.keys(source) {
		if !slices.Contains(keys, k) {
			f.close(source, before, k, f.node.now)
		}
	}
}

// lost keeps account of a source's word that an owner is gone.
func (f *auditFeeds) lost(source auditSource, owner string, at int64) {
	l := f.owners[source][owner]
	if l == nil {
		return
	}
	delete(f.owners[source], owner)
	for _, k := range l.keys(source) {
		f.close(source, l, k, at)
	}
}

func (f *auditFeeds) close(source auditSource, l *tenancy, key any, at int64) {
	for _, c := range f.claims[key] {
		if c.source == source && c.life.record(source).Owner == l.record(source).Owner && c.end > at {
			c.end = max(at, c.begin)
		}
	}
}
