// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

var _ source.Sink = (*recorder)(nil)

// recorder is a sink that keeps what a source says, for tests to wait for.
type recorder struct {
	refresh chan struct{}

	mu       sync.Mutex
	changed  chan struct{} // closed at each call
	records  map[string]podidentity.Record
	puts     int
	dead     []string
	failures []error
	synced   int
}

func newRecorder() *recorder {
	return &recorder{refresh: make(chan struct{}, 1), changed: make(chan struct{}), records: map[string]podidentity.Record{}}
}

func (r *recorder) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Put(record podidentity.Record) {
	r.note(func() {
		r.records[record.Owner] = record
		r.puts++
	})
}

func (r *recorder) End(owner string, at time.Time, terminal bool) {
	r.note(func() {
		delete(r.records, owner)
		if terminal && !slices.Contains(r.dead, owner) && !at.IsZero() {
			r.dead = append(r.dead, owner)
		}
	})
}

func (r *recorder) Replace([]podidentity.Record, time.Time) { panic("the cri source reports changes") }
func (r *recorder) Synced()                                 { r.note(func() { r.synced++ }) }
func (r *recorder) Failed(err error)                        { r.note(func() { r.failures = append(r.failures, err) }) }
func (r *recorder) Refresh() <-chan struct{}                { return r.refresh }
func (r *recorder) Wanted() (labels, annotations []string)  { return nil, nil }

// await waits until is holds, for as long as anything could take.
func (r *recorder) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		ok, changed := is(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			r.mu.Lock()
			defer r.mu.Unlock()
			require.FailNow(t, "waited in vain until "+what, "records %v, dead %v, failures %v", r.records, r.dead, r.failures)
		}
	}
}

func (r *recorder) awaitPod(t *testing.T, id string) podidentity.Record {
	t.Helper()
	var record podidentity.Record
	r.await(t, "sandbox "+id+" is known", func() (ok bool) {
		record, ok = r.records[id]
		return ok
	})
	return record
}

func (r *recorder) awaitDead(t *testing.T, id string) {
	t.Helper()
	r.await(t, "sandbox "+id+" is dead", func() bool { return slices.Contains(r.dead, id) })
}

// awaitSync waits for the next successful list.
func (r *recorder) awaitSync(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	before := r.synced
	r.mu.Unlock()
	r.await(t, "the source has synced", func() bool { return r.synced > before })
}

func (r *recorder) awaitFailure(t *testing.T) error {
	t.Helper()
	r.mu.Lock()
	before := len(r.failures)
	r.mu.Unlock()
	var err error
	r.await(t, "the source has failed", func() bool {
		if len(r.failures) > before {
			err = r.failures[len(r.failures)-1]
		}
		return err != nil
	})
	return err
}

// observe starts a source on an endpoint and ends it with the test.
func observe(t *testing.T, cfg *Config) *recorder {
	t.Helper()
	require.NoError(t, cfg.Validate())
	s, err := New(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	sink := newRecorder()
	require.NoError(t, s.Start(context.Background(), sink))
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, s.Shutdown(context.Background()))
	})
	return sink
}

// polling is a configuration that lists again soon, hinting one that does so
// only when something asks for it.
func polling(f *fakeRuntime) *Config {
	return &Config{Endpoint: f.endpoint(), PollInterval: 60 * time.Millisecond, Timeout: 5 * time.Second}
}

func hinting(f *fakeRuntime) *Config {
	return &Config{Endpoint: f.endpoint(), PollInterval: time.Hour, Timeout: 5 * time.Second}
}
