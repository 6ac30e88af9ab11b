// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
)

const (
	// maxWatchers and maxBehind bound what watchers cost: this many, each this
	// many changes behind.
	maxWatchers = 32
	maxBehind   = 1024
)

// event is a change of the table.
type event struct {
	attachment *journal.Attachment
	gone       bool
}

// watcher gets the table's changes. It is cut off, by closing behind, when it
// does not keep up.
type watcher struct {
	events chan event
	behind chan struct{}
}

// table is what is attached now: the one place that says so. It is safe for
// concurrent use, and its lock is never held during I/O.
type table struct {
	mu      sync.Mutex
	byID    map[string]*journal.Attachment
	byIndex map[int]string // the node's end of the link → workload id
	busy    map[string]chan struct{}
	// detaching are those whose Detach has begun and not finished: the link may be
	// off the network already.
	detaching map[string]struct{}
	watchers  map[*watcher]struct{}
}

func newTable() *table {
	return &table{
		byID: map[string]*journal.Attachment{}, byIndex: map[int]string{},
		busy: map[string]chan struct{}{}, detaching: map[string]struct{}{}, watchers: map[*watcher]struct{}{},
	}
}

// acquire waits until nobody else works on the workload, and keeps others from it
// until release.
func (t *table) acquire(ctx context.Context, id string) (release func(), err error) {
	for {
		t.mu.Lock()
		other, isBusy := t.busy[id]
		if !isBusy {
			mine := make(chan struct{})
			t.busy[id] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, id)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *table) get(id string) *journal.Attachment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// detach notes that a Detach of the workload has begun; remove ends it.
func (t *table) detach(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detaching[id] = struct{}{}
}

func (t *table) isDetaching(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, is := t.detaching[id]
	return is
}

// put adds or replaces an attachment, and tells the watchers.
func (t *table) put(a *journal.Attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.byID[a.WorkloadID]; before != nil {
		delete(t.byIndex, before.HostIndex)
	}
	t.byID[a.WorkloadID] = a
	t.byIndex[a.HostIndex] = a.WorkloadID
	t.tell(event{attachment: a})
}

// remove removes an attachment, and tells the watchers.
func (t *table) remove(a *journal.Attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, a.WorkloadID)
	delete(t.byIndex, a.HostIndex)
	delete(t.detaching, a.WorkloadID)
	t.tell(event{attachment: a, gone: true})
}

// owner is the workload whose link has the index.
func (t *table) owner(index int) (id string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok = t.byIndex[index]
	return id, ok
}

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// all is what is attached, ordered by workload id.
func (t *table) all() []*journal.Attachment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sorted()
}

func (t *table) sorted() []*journal.Attachment {
	all := make([]*journal.Attachment, 0, len(t.byID))
	for _, a := range t.byID {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *journal.Attachment) int { return cmp.Compare(a.WorkloadID, b.WorkloadID) })
	return all
}

// watch returns what is attached, and a watcher for all that changes after.
func (t *table) watch() ([]*journal.Attachment, *watcher, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.watchers) == maxWatchers {
		return nil, nil, status.Errorf(codes.ResourceExhausted, "there are %d watchers already", maxWatchers)
	}
	w := &watcher{events: make(chan event, maxBehind), behind: make(chan struct{})}
	t.watchers[w] = struct{}{}
	return t.sorted(), w, nil
}

func (t *table) unwatch(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, w)
}

// tell never waits: a watcher without room is cut off.
func (t *table) tell(e event) {
	for w := range t.watchers {
		select {
		case w.events <- e:
		default:
			delete(t.watchers, w)
			close(w.behind)
		}
	}
}
