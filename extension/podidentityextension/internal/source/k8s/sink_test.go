// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// ending is one call of Sink.End.
type ending struct {
	owner    string
	at       time.Time
	terminal bool
}

// recordingSink is a fake of the cache: it keeps what the source said and what
// would be live by it.
type recordingSink struct {
	labels, annotations []string

	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each change
	live    map[string]podidentity.Record
	ends    []ending
	puts    int
	lists   int // Replace
	synced  int // Replace and Synced
	failed  []error
}

var _ source.Sink = (*recordingSink)(nil)

func newRecordingSink() *recordingSink {
	return &recordingSink{changed: make(chan struct{}), live: map[string]podidentity.Record{}}
}

func (s *recordingSink) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *recordingSink) Replace(records []podidentity.Record, at time.Time) {
	s.change(func() {
		s.lists++
		s.synced++
		left := map[string]podidentity.Record{}
		for _, r := range records {
			left[r.Owner] = r
		}
		for _, owner := range slices.Sorted(maps.Keys(s.live)) {
			if _, ok := left[owner]; !ok {
				s.ends = append(s.ends, ending{owner, at, false})
			}
		}
		s.live = left
	})
}

func (s *recordingSink) Put(r podidentity.Record) {
	s.change(func() { s.puts++; s.live[r.Owner] = r })
}

func (s *recordingSink) End(owner string, at time.Time, terminal bool) {
	s.change(func() {
		s.ends = append(s.ends, ending{owner, at, terminal})
		delete(s.live, owner)
	})
}

func (s *recordingSink) Synced() { s.change(func() { s.synced++ }) }

func (s *recordingSink) Failed(err error) { s.change(func() { s.failed = append(s.failed, err) }) }

func (s *recordingSink) Refresh() <-chan struct{} { return nil }

func (s *recordingSink) Wanted() (labels, annotations []string) { return s.labels, s.annotations }

// await waits until what the source said satisfies cond, which is called with
// the sink locked.
func (s *recordingSink) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			require.FailNow(t, "not seen: "+what, "live %d, ends %v, lists %d, failed %v", len(s.live), s.ends, s.lists, s.failed)
		}
	}
}

// owners returns the live owners, sorted. Call it in await or when the source
// is idle.
func (s *recordingSink) owners() []string { return slices.Sorted(maps.Keys(s.live)) }

// reasons returns the failures' words, each once. Call it as owners.
func (s *recordingSink) reasons() []string {
	var all []string
	for _, err := range s.failed {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
