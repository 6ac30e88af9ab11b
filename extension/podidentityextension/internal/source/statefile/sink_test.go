// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink records what a source reports, in place of the extension's cache.
type sink struct {
	t       *testing.T
	refresh chan struct{}

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every report
	records  map[string]podidentity.Record
	at       time.Time
	replaced int
	synced   int
	failed   []error
	healthy  bool
	hold     chan struct{} // while not nil, Replace waits for it
	holding  chan struct{} // receives when Replace waits
}

func newSink(t *testing.T) *sink {
	return &sink{t: t, refresh: make(chan struct{}), changed: make(chan struct{}), holding: make(chan struct{}, 1)}
}

func (s *sink) report(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *sink) Replace(records []podidentity.Record, at time.Time) {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case s.holding <- struct{}{}:
		default:
		}
		<-hold
	}
	s.report(func() {
		s.records = map[string]podidentity.Record{}
		for _, r := range records {
			assert.NotContains(s.t, s.records, r.Owner, "an owner is reported once")
			s.records[r.Owner] = r
		}
		assert.False(s.t, at.IsZero() || at.After(time.Now()))
		s.at, s.healthy = at, true
		s.replaced++
	})
}

func (s *sink) Synced() { s.report(func() { s.synced++; s.healthy = true }) }

func (s *sink) Failed(err error) {
	s.report(func() { s.failed = append(s.failed, err); s.healthy = false })
}

func (s *sink) Put(podidentity.Record) { s.t.Error("a state file is reported as a whole") }

func (s *sink) End(string, time.Time, bool) { s.t.Error("a state file is reported as a whole") }

func (s *sink) Refresh() <-chan struct{} { return s.refresh }

// wait waits until what the sink has been told fulfils a condition.
func (s *sink) wait(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.After(20 * time.Second)
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
			require.FailNow(s.t, "waited in vain", "%s; names %v, failures %v", what, s.namesLocked(), s.failed)
		}
	}
}

func (s *sink) waitNames(names ...string) {
	s.t.Helper()
	slices.Sort(names)
	s.wait("names "+strings.Join(names, ", "), func() bool { return s.healthy && slices.Equal(s.namesLocked(), names) })
}

func (s *sink) waitFailure(text string) {
	s.t.Helper()
	s.wait("failure "+text, func() bool {
		return !s.healthy && len(s.failed) > 0 && strings.Contains(s.failed[len(s.failed)-1].Error(), text)
	})
}

func (s *sink) namesLocked() []string {
	names := make([]string, 0, len(s.records))
	for _, r := range s.records {
		names = append(names, r.Identity.Namespace+"/"+r.Identity.Name)
	}
	slices.Sort(names)
	return names
}

// names returns the names as they are now.
func (s *sink) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.namesLocked()
}

func (s *sink) snapshot() map[string]podidentity.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.records)
}

// lastAt is the time of the last answer.
func (s *sink) lastAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *sink) counts() (replaced, synced, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaced, s.synced, len(s.failed)
}

// never is a poll interval that no test lives to see.
const never = time.Hour

// start starts a source and ends it with the test.
func start(t *testing.T, cfg *Config, s *sink) *observer.ObservedLogs {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	src, err := New(cfg, set)
	require.NoError(t, err)
	require.NoError(t, src.Start(t.Context(), s))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, src.Shutdown(ctx))
		assert.NoError(t, src.Shutdown(ctx), "twice")
	})
	return logs
}

// watch starts a source that only notifications and refreshes move.
func watch(t *testing.T, path, format string) (*sink, *observer.ObservedLogs) {
	t.Helper()
	s := newSink(t)
	return s, start(t, &Config{Path: path, Format: format, PollInterval: never}, s)
}

func messages(logs *observer.ObservedLogs, level zapcore.Level) []string {
	var ms []string
	for _, e := range logs.FilterLevelExact(level).All() {
		ms = append(ms, e.Message)
	}
	return ms
}

func temp(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }

// Wanted implements source.Sink; files carry what they carry.
func (s *sink) Wanted() (labels, annotations []string) { return nil, nil }
