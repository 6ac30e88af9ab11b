// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

const (
	// refreshInterval is how often look-ups that found no pod may make the
	// sources look again.
	refreshInterval = time.Second
	// expireInterval is how often a clock that was set back is noticed at least.
	expireInterval = time.Second
	// rivalsInterval is how often addresses that several pods claim are looked at.
	rivalsInterval = time.Second
)

var (
	_ extension.Extension                   = (*identityExtension)(nil)
	_ extensioncapabilities.PipelineWatcher = (*identityExtension)(nil)
	_ extensioncapabilities.Dependent       = (*identityExtension)(nil)
	_ podidentity.Resolver                  = (*identityExtension)(nil)
	_ podidentity.Publisher                 = (*identityExtension)(nil)
)

type identityExtension struct {
	cfg    *Config
	id     component.ID
	set    component.TelemetrySettings
	logger *zap.Logger
	cache  *cache.Cache
	tel    *metadata.TelemetryBuilder

	names    []string // of all sources, by precedence
	sources  []*feed  // by precedence, without push
	pushRank int
	pushed   atomic.Int64 // when Publish or End was last called, in nanoseconds since 1970; 0 is never

	ready     chan struct{}
	readyOnce sync.Once

	stopping     chan struct{}
	stoppingOnce sync.Once

	wants  wants
	rivals rivals // run's

	statusMu sync.Mutex // keeps status reports in the order of the changes
	host     component.Host

	keeper       *keeper // nil without storage
	keepInterval time.Duration
	page         *pageServer

	cancel context.CancelFunc
	done   chan struct{}
}

func newExtension(cfg *Config, set component.TelemetrySettings) (*identityExtension, error) {
	tel, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	order := cfg.order()
	e := &identityExtension{
		cfg:    cfg,
		set:    set,
		logger: set.Logger,
		cache:  cache.New(len(order), cfg.GracePeriod, cache.SystemClock()),
		tel:    tel,
		names:  order,

		keepInterval: keepInterval,
		ready:        make(chan struct{}),
		stopping:     make(chan struct{}),
	}
	for rank, name := range order {
		if name == push {
			e.pushRank = rank
			continue
		}
		id := component.MustNewID(push)
		if err := id.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		sourceSet := set
		sourceSet.Logger = set.Logger.With(zap.String("source", name))
		typ := sourceTypes[id.Type().String()]
		src, err := typ.newSource(cfg.Sources[id], sourceSet)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", name, err)
		}
		f := newFeed(e, name, rank, src, sourceSet.Logger)
		if f.watches = typ.watches; f.watches {
			e.cache.Relabels(rank)
		}
		e.sources = append(e.sources, f)
	}
	return e, nil
}

// Dependencies has the Collector start the storage first.
func (e *identityExtension) Dependencies() []component.ID {
	if e.cfg.Storage == (component.ID{}) {
		return nil
	}
	return []component.ID{e.cfg.Storage}
}

// Start starts the sources and returns without waiting for them.
func (e *identityExtension) Start(ctx context.Context, host component.Host) error {
	err := e.start(ctx, host)
	if err != nil {
		err = errors.Join(err, e.Shutdown(ctx))
	}
	return err
}

func (e *identityExtension) start(ctx context.Context, host component.Host) error {
	e.statusMu.Lock()
	e.host = host
	e.statusMu.Unlock()
	if err := e.observe(); err != nil {
		return err
	}
	if len(e.sources) == 0 {
		e.logger.Info("No sources are configured: only what another extension publishes will be known")
	}
	if err := e.restore(ctx, host); err != nil {
		return err
	}
	if err := e.servePage(ctx, host); err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.Background())
	e.cancel, e.done = cancel, make(chan struct{})
	go e.run(run)
	return e.startSources(ctx, func(f *feed) bool { return !f.watches })
}

// Ready starts the sources that keep only what somebody asked for: every
// component has started by now and said what it wants. So has every publisher,
// and said which pods it has.
func (e *identityExtension) Ready() error {
	e.cache.Confirm(e.pushRank)
	return e.startSources(context.Background(), func(f *feed) bool { return f.watches })
}

// NotReady is called before the pipelines stop, even if they never started. What
// is known stays.
func (e *identityExtension) NotReady() error {
	e.stoppingOnce.Do(func() { close(e.stopping) })
	return nil
}

func (e *identityExtension) startSources(ctx context.Context, which func(*feed) bool) error {
	for _, f := range e.sources {
		if !which(f) {
			continue
		}
		if err := f.source.Start(ctx, f); err != nil {
			return fmt.Errorf("source %q: %w", f.name, err)
		}
	}
	e.checkReady()
	return nil
}

// Shutdown ends the sources. What was known stays resolvable, for processors
// that still have data to pass on.
func (e *identityExtension) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range e.sources {
		f.close()
		if err := f.source.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("source %q: %w", f.name, err))
		}
	}
	if e.cancel != nil {
		e.cancel()
		<-e.done
	}
	if e.page != nil {
		errs = append(errs, e.page.close())
	}
	if e.keeper != nil {
		errs = append(errs, e.keeper.close(ctx))
	}
	e.tel.Shutdown()
	return errors.Join(errs...)
}

// Resolve implements podidentity.Resolver.
func (e *identityExtension) Resolve(q podidentity.Query) (*podidentity.Identity, podidentity.Outcome) {
	return e.cache.Resolve(q)
}

// Synced implements podidentity.Resolver.
func (e *identityExtension) Synced() <-chan struct{} { return e.ready }

// Stopping implements podidentity.Resolver.
func (e *identityExtension) Stopping() <-chan struct{} { return e.stopping }

// Want implements podidentity.Resolver.
func (e *identityExtension) Want(labels, annotations []string) { e.wants.add(labels, annotations) }

// Publish implements podidentity.Publisher.
func (e *identityExtension) Publish(r podidentity.Record) error {
	switch {
	case r.Owner == "":
		return errors.New("publish an identity: the record has no Owner")
	case r.Identity.Name == "":
		return fmt.Errorf("publish the identity of %q: the record has no Identity.Name", r.Owner)
	case !cache.HasKey(&r):
		return fmt.Errorf("publish the identity of %q (%s/%s): the record has no key that tells pods apart",
			r.Owner, r.Identity.Namespace, r.Identity.Name)
	}
	e.cache.Put(e.pushRank, r, true)
	e.pushed.Store(time.Now().UnixNano())
	return nil
}

// End implements podidentity.Publisher. The publisher is taken at its word that
// the sandbox is gone: sources that still list it do not hold its keys.
func (e *identityExtension) End(owner string, at time.Time) {
	e.cache.End(e.pushRank, owner, at, true)
	e.pushed.Store(time.Now().UnixNano())
}

// run keeps the cache's time and passes on its misses.
func (e *identityExtension) run(ctx context.Context) {
	defer close(e.done)
	expire := time.NewTimer(expireInterval)
	defer expire.Stop()
	rivals := time.NewTicker(rivalsInterval)
	defer rivals.Stop()
	startup := time.NewTimer(e.cfg.StartupTimeout)
	defer startup.Stop()
	rearm := time.NewTimer(0)
	defer rearm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
			expire.Reset(e.cache.Expire(expireInterval))
		case <-rivals.C:
			e.reportRivals()
		case <-e.cache.Missed():
			for _, f := range e.sources {
				f.askAgain()
			}
			rearm.Reset(refreshInterval)
		case <-rearm.C:
			e.cache.Listen()
		case <-startup.C:
			e.startUnsynced()
		}
	}
}

// checkReady closes ready when every source has synced.
func (e *identityExtension) checkReady() {
	for _, f := range e.sources {
		if !f.hasSynced() {
			return
		}
	}
	e.readyOnce.Do(func() { close(e.ready) })
}

func (e *identityExtension) startUnsynced() {
	e.readyOnce.Do(func() {
		var late []string
		for _, f := range e.sources {
			if !f.hasSynced() {
				late = append(late, f.name)
			}
		}
		e.logger.Warn("Going on without the first answer of every source: pods that only these know stay unnamed until it comes",
			zap.Strings("sources", late), zap.Duration("startup_timeout", e.cfg.StartupTimeout))
		close(e.ready)
	})
}

// reportStatus tells the host which sources are down. It is called when one of
// them went down or came back, never else.
func (e *identityExtension) reportStatus() {
	e.statusMu.Lock()
	defer e.statusMu.Unlock()
	var down []error
	for _, f := range e.sources {
		if err := f.failure(); err != nil {
			down = append(down, fmt.Errorf("source %q is down: %w", f.name, err))
		}
	}
	event := componentstatus.NewEvent(componentstatus.StatusOK)
	if len(down) > 0 {
		event = componentstatus.NewRecoverableErrorEvent(errors.Join(down...))
	}
	componentstatus.ReportStatus(e.host, event)
}

var _ source.Sink = (*feed)(nil)
