// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"math"

	"github.com/puzpuzpuz/xsync/v4"
)

// Times inside the cache are wall clock nanoseconds since 1970.
const (
	// live is the end of a lease that has not ended.
	live int64 = math.MaxInt64
	// present is the query time that means "now". No wall clock read is needed
	// for it: a live lease covers it and an ended one does not.
	present int64 = math.MaxInt64 - 1
)

// A lease says that a record holds a key in [begin, end). The leases of one key
// form a list, newest first, that is never changed once readers can see it:
// writers build a new one.
type lease struct {
	holder     *record
	begin, end int64
	next       *lease
}

// live says whether the lease has not ended. Writers only.
func (l *lease) live() bool { return l.end == live && l.holder.end == live }

// differ says whether pods with different names have held the key.
func (l *lease) differ() bool {
	first := &l.holder.view.Load().identity
	for l = l.next; l != nil; l = l.next {
		switch id := &l.holder.view.Load().identity; {
		case first.Name == "":
			first = id
		case id.Name != "" && (id.Name != first.Name || id.Namespace != first.Namespace):
			return true
		}
	}
	return false
}

// An index maps the keys of one kind to their leases. Loads are free of locks;
// all other methods need the cache's mutex.
type index[K comparable] struct {
	m *xsync.Map[K, *lease]
}

func newIndex[K comparable]() index[K] {
	return index[K]{m: xsync.NewMap[K, *lease]()}
}

func (x index[K]) load(k K) *lease {
	l, _ := x.m.Load(k)
	return l
}

// held says whether r holds k.
func (x index[K]) held(k K, r *record) bool {
	for l := x.load(k); l != nil; l = l.next {
		if l.holder == r && l.end == live {
			return true
		}
	}
	return false
}

// grant gives k to r from begin on, until r's end if that is known already.
func (x index[K]) grant(k K, r *record, begin int64) {
	x.m.Store(k, &lease{holder: r, begin: begin, end: r.end, next: x.load(k)})
}

// end ends r's lease of k, and those of the records that r succeeded, should at
// be before their end. A later record of the same owner is another life. The
// leases stay, for look-ups of older data, until they are dropped.
func (x index[K]) end(k K, r *record, at int64) {
	x.rewrite(k, func(l lease) (lease, bool) {
		if l.end > at && l.holder.source == r.source && l.holder.owner == r.owner && l.holder.begin <= r.begin {
			l.end = max(at, l.begin)
		}
		return l, true
	})
}

// drop forgets r's lease of k.
func (x index[K]) drop(k K, r *record) {
	x.rewrite(k, func(l lease) (lease, bool) { return l, l.holder != r })
}

// pass makes s the holder of k from at on in r's place, without a moment in which
// nobody holds it. What r held before stays r's.
func (x index[K]) pass(k K, r, s *record, at int64) {
	var first *lease
	last := &first
	for l := x.load(k); l != nil; l = l.next {
		c := *l
		c.next = nil
		*last = &c
		last = &c.next
		if l.holder != r || l.end != live {
			continue
		}
		c.holder, c.begin = s, max(l.begin, at)
		if l.begin < at {
			past := &lease{holder: r, begin: l.begin, end: at}
			*last = past
			last = &past.next
		}
	}
	if first != nil {
		x.m.Store(k, first)
	}
}

// setBack lets no live lease of k begin after now.
func (x index[K]) setBack(k K, now int64) {
	x.rewrite(k, func(l lease) (lease, bool) {
		if l.end == live {
			l.begin = min(l.begin, now)
		}
		return l, true
	})
}

// rewrite replaces k's list by edited copies of those leases that edit keeps.
func (x index[K]) rewrite(k K, edit func(lease) (lease, bool)) {
	var first *lease
	last := &first
	for l := x.load(k); l != nil; l = l.next {
		if c, keep := edit(*l); keep {
			c.next = nil
			*last = &c
			last = &c.next
		}
	}
	if first == nil {
		x.m.Delete(k)
		return
	}
	x.m.Store(k, first)
}
