// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

const (
	// debounce gathers the notifications of one change: a write in place is
	// three, a rename two.
	debounce = 2 * time.Millisecond
	// settle is how long a file may be unreadable before that is reported: a
	// file written in place is empty first and half-written next, one replaced
	// in two steps is absent in between.
	settle = 500 * time.Millisecond
	// retryMost bounds the growing pause between looks while a file settles.
	retryMost = 100 * time.Millisecond
	// refreshGap bounds how often missed look-ups cause a look.
	refreshGap = 100 * time.Millisecond
)

var errStarted = errors.New("the state file source has been started already")

// stateFile watches one state file or directory. Start and Shutdown may be
// called from any goroutine; everything else belongs to the one that run is.
type stateFile struct {
	interval time.Duration
	reader   *reader
	report   *report
	log      *zap.Logger
	// unwatched says that it was logged that changes are not notified.
	unwatched bool

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a source that reports the pods of the configured state file.
func New(cfg *Config, set component.TelemetrySettings) (source.Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	paths := usualPaths(runtime.GOOS, cfg.Format)
	if cfg.Path != "" {
		path, err := filepath.Abs(cfg.Path)
		if err != nil {
			return nil, err
		}
		paths = []string{path}
	}
	log := set.Logger
	if log == nil {
		log = zap.NewNop()
	}
	return &stateFile{
		interval: cfg.PollInterval,
		reader:   newReader(paths, formats[cfg.Format], log),
		report:   newReport(nil, log),
		log:      log,
	}, nil
}

// Start implements source.Source.
func (s *stateFile) Start(_ context.Context, sink source.Sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return errStarted
	}
	// The context of Start ends with Start.
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	s.report.sink = sink
	go func() {
		defer close(s.done)
		s.run(ctx, sink.Refresh())
	}()
	return nil
}

// Shutdown implements source.Source.
func (s *stateFile) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run looks at the state whenever there is a reason to, until ctx ends. A look
// reads all that has changed, whatever the reason, so that a lost notification
// costs time and nothing else.
func (s *stateFile) run(ctx context.Context, refresh <-chan struct{}) {
	defer s.reader.watches.close()
	var (
		timer    = time.NewTimer(0)
		now      = time.Now()
		nextPoll = now // the first look is a poll
		nextLook = now // before the poll, when there is a reason
		last     time.Time
		gap      = debounce
		asked    bool // by a missed look-up
		retries  int
	)
	defer timer.Stop()
	sooner := func(at time.Time) {
		if at.Before(nextLook) {
			nextLook = at
		}
	}
	for {
		timer.Reset(time.Until(nextLook))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			now = time.Now()
			poll := !now.Before(nextPoll)
			l := s.reader.look(now, poll)
			s.warnOfWatches(poll)
			settling := s.report.take(l, now, poll || asked)
			asked, last = false, time.Now()
			// However many notifications there are, half of the time is left to others.
			gap = max(debounce, last.Sub(now))
			if poll {
				nextPoll = last.Add(s.interval)
			}
			nextLook = nextPoll
			if settling {
				sooner(last.Add(min(gap<<min(retries, 10), retryMost)))
				retries++
			} else {
				retries = 0
			}
		case <-s.reader.watches.changed:
			sooner(time.Now().Add(gap))
		case <-refresh:
			asked = true
			now = time.Now()
			sooner(later(now, last.Add(refreshGap)))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// warnOfWatches reports once, until it works again, that changes are not
// notified.
func (s *stateFile) warnOfWatches(poll bool) {
	failed := s.reader.watches.failed
	switch {
	case failed == nil:
		if poll && s.unwatched {
			s.unwatched = false
			s.log.Info("changes of the state file are notified again", zap.Strings("paths", s.reader.paths))
		}
	case !s.unwatched:
		s.unwatched = true
		s.log.Warn("cannot watch the state file, so a change is seen at the next poll only; on Linux, "+
			"raise fs.inotify.max_user_watches or fs.inotify.max_user_instances",
			zap.Strings("paths", s.reader.paths), zap.Duration("poll_interval", s.interval), zap.Error(failed))
	}
}
