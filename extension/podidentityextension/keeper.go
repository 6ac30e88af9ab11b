// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/saved"
)

const (
	// storageKey is where the identities are in the storage.
	storageKey = "identities"
	// storageTimeout bounds every call of the storage extension.
	storageTimeout = 10 * time.Second
	// keepInterval is how often changes are written at most.
	keepInterval = 5 * time.Second
	// keepShare is how much longer than a write the pause after it lasts: for a
	// great many pods writing takes 5 % of a processor at most.
	keepShare = 20
)

// A keeper writes what the cache knows to a storage, a while after it changed.
type keeper struct {
	cache   *cache.Cache
	names   []string // of the sources, by rank
	client  storage.Client
	logger  *zap.Logger
	written uint64 // the cache's changes when last written
	stale   bool   // what is written is to be replaced, though nothing has changed
	failing bool
	cut     bool

	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// restore opens the storage, takes over what an earlier process kept, and keeps
// what changes from then on. It fails only on a wrong configuration: without
// storage identities are merely late after a restart.
func (e *identityExtension) restore(ctx context.Context, host component.Host) error {
	if e.cfg.Storage == (component.ID{}) {
		return nil
	}
	ext, ok := host.GetExtensions()[e.cfg.Storage]
	if !ok {
		return fmt.Errorf("storage: there is no extension %q: add it to extensions and to service::extensions", e.cfg.Storage)
	}
	store, ok := ext.(storage.Extension)
	if !ok {
		return fmt.Errorf("storage: the extension %q is not a storage extension", e.cfg.Storage)
	}
	logger := e.logger.With(zap.String("storage", e.cfg.Storage.String()))
	const forgets = "The storage cannot be used: identities will not be known after the next restart until the sources answer"
	boot, err := saved.Boot()
	if err != nil {
		logger.Error(forgets, zap.Error(err))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	client, err := store.GetClient(ctx, component.KindExtension, e.id, "")
	if err != nil {
		logger.Error(forgets, zap.Error(err))
		return nil
	}
	k := &keeper{cache: e.cache, names: e.names, client: client, logger: logger, done: make(chan struct{})}
	k.load(ctx, boot)
	run, stop := context.WithCancel(context.Background())
	k.cancel = stop
	go k.run(run, e.keepInterval)
	e.keeper = k
	return nil
}

func (k *keeper) load(ctx context.Context, boot string) {
	value, err := k.client.Get(ctx, storageKey)
	if err == nil && value == nil {
		return // the first start
	}
	var records []saved.Record
	if err == nil {
		records, err = saved.Decode(value, boot)
	}
	switch {
	case errors.Is(err, saved.ErrOtherBoot):
		k.stale = true
		k.logger.Info("The machine has started anew: the identities from before are forgotten")
	case err != nil:
		k.stale = true
		k.logger.Error("The storage is damaged: it is ignored and written anew, and identities are known when the sources answer",
			zap.String("key", storageKey), zap.Error(err))
	default:
		var entries []cache.Entry
		for _, r := range records {
			if rank := slices.Index(k.names, r.Source); rank >= 0 { // else it is configured no more
				entries = append(entries, cache.Entry{Source: rank, Record: r.Record, Sure: r.Sure})
			}
		}
		k.cache.Restore(entries)
		k.written = k.cache.Changes()
		k.logger.Info("Took over the identities from before the restart: each answers until its source confirms or ends it",
			zap.Int("records", len(entries)))
	}
}

func (k *keeper) run(ctx context.Context, interval time.Duration) {
	defer close(k.done)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		k.keep(ctx)
		timer.Reset(max(interval, keepShare*time.Since(began)))
	}
}

// keep writes what the cache knows, if that has changed.
func (k *keeper) keep(ctx context.Context) {
	changes := k.cache.Changes()
	if changes == k.written && !k.stale {
		return
	}
	left, err := k.write(ctx)
	if err != nil {
		if !k.failing {
			k.logger.Error("The identities could not be written to the storage: what changes is not known after a restart. Goes on trying",
				zap.Error(err))
		}
		k.failing = true
		return
	}
	if k.failing {
		k.logger.Info("The identities are written to the storage again")
	}
	if left > 0 && !k.cut {
		k.logger.Warn("There are too many identities to keep all of them in the storage: the rest is not known at once after a restart",
			zap.Int("left_out", left))
	}
	k.written, k.stale, k.failing, k.cut = changes, false, false, left > 0
}

func (k *keeper) write(ctx context.Context) (left int, err error) {
	boot, err := saved.Boot()
	if err != nil {
		return 0, err
	}
	value, left, err := saved.Encode(k.records(), boot, time.Now())
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	return left, k.client.Set(ctx, storageKey, value)
}

func (k *keeper) records() iter.Seq[saved.Record] {
	return func(yield func(saved.Record) bool) {
		k.cache.Entries(func(e cache.Entry) bool {
			return yield(saved.Record{Source: k.names[e.Source], Record: e.Record, Sure: e.Sure})
		})
	}
}

// close writes for the last time and ends the keeper. It waits at most until ctx
// is done for a write under way, and is safe twice.
func (k *keeper) close(ctx context.Context) (err error) {
	k.once.Do(func() {
		k.cancel()
		select {
		case <-k.done:
			k.stale = true // or what is known held until the last change, not until now
			k.keep(ctx)
			err = k.client.Close(ctx)
		case <-ctx.Done():
			err = fmt.Errorf("storage: it is still writing: %w", ctx.Err())
		}
	})
	return err
}
