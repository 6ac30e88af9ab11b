// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A feed is the way from one source into the cache, and the source's health.
type feed struct {
	ext     *identityExtension
	name    string
	rank    int
	source  source.Source
	logger  *zap.Logger
	watches bool // see sourceType

	refresh  chan struct{}
	failures atomic.Int64
	synced   atomic.Int64 // when last, in nanoseconds on the monotonic clock since birth, at least 1; 0 is never
	birth    time.Time
	closed   atomic.Bool

	mu      sync.Mutex
	down    error               // why the source is down, nil while it is not
	reasons map[string]struct{} // the reasons that were logged since it went down
}

// maxReasons is how many reasons are logged while a source is down: one that
// carries a time or a port is a new one at every attempt.
const maxReasons = 10

func newFeed(ext *identityExtension, name string, rank int, src source.Source, logger *zap.Logger) *feed {
	return &feed{
		ext: ext, name: name, rank: rank, source: src, logger: logger,
		refresh: make(chan struct{}, 1), birth: time.Now(),
	}
}

// Replace implements source.Sink.
func (f *feed) Replace(records []podidentity.Record, at time.Time) {
	f.ext.cache.Replace(f.rank, records, at)
	f.Synced()
}

// Put implements source.Sink.
func (f *feed) Put(r podidentity.Record) { f.ext.cache.Put(f.rank, r, false) }

// End implements source.Sink.
func (f *feed) End(owner string, at time.Time, terminal bool) {
	f.ext.cache.End(f.rank, owner, at, terminal)
}

// Synced implements source.Sink.
func (f *feed) Synced() {
	first := f.synced.Swap(max(1, int64(time.Since(f.birth)))) == 0
	if back, _ := f.setDown(nil); back {
		f.logger.Info("The source answers again")
		f.ext.reportStatus()
	}
	if first {
		f.ext.cache.Confirm(f.rank)
		f.ext.checkReady()
	}
}

// Failed implements source.Sink.
func (f *feed) Failed(err error) {
	if f.closed.Load() {
		return // cut off by our own shutdown
	}
	f.failures.Add(1)
	switch went, changed := f.setDown(err); {
	case went:
		f.logger.Warn("The source is down; what it said last stays known", zap.Error(err))
		f.ext.reportStatus()
	case changed:
		f.logger.Warn("The source is still down, for another reason", zap.Error(err))
		f.ext.reportStatus()
	}
}

// Refresh implements source.Sink.
func (f *feed) Refresh() <-chan struct{} { return f.refresh }

// Wanted implements source.Sink.
func (f *feed) Wanted() (labels, annotations []string) { return f.ext.wants.all() }

// setDown notes err, and says whether the source went down or came back by it, or
// is down for a reason that has not been logged.
func (f *feed) setDown(err error) (changed, reason bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = (f.down == nil) != (err == nil)
	f.down = err
	if err == nil {
		f.reasons = nil
		return changed, false
	}
	if _, logged := f.reasons[err.Error()]; logged || len(f.reasons) == maxReasons {
		return changed, false
	}
	if f.reasons == nil {
		f.reasons = map[string]struct{}{}
	}
	f.reasons[err.Error()] = struct{}{}
	return changed, true
}

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *feed) hasSynced() bool { return f.synced.Load() != 0 }

// age is the time since the last answer; false before the first one.
func (f *feed) age() (time.Duration, bool) {
	at := f.synced.Load()
	return time.Since(f.birth) - time.Duration(at), at != 0
}

func (f *feed) askAgain() {
	select {
	case f.refresh <- struct{}{}:
	default:
	}
}

func (f *feed) close() { f.closed.Store(true) }
