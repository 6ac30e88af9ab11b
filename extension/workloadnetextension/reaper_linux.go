// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
)

// reapRetry is how long the reaper waits after a failure.
const reapRetry = time.Second

// reaper deletes doomed links behind the callers' backs: a deletion takes the
// kernel some 10 ms, whether it is of one link or of many.
type reaper struct {
	network veth.Network
	logger  *zap.Logger

	mu      sync.Mutex
	pending []int         // links to delete
	idle    chan struct{} // closed while there are none; replaced when there are
	wake    chan struct{}
}

func newReaper(network veth.Network, logger *zap.Logger) *reaper {
	r := &reaper{network: network, logger: logger, idle: make(chan struct{}), wake: make(chan struct{}, 1)}
	close(r.idle)
	return r
}

// add has the doomed link deleted.
func (r *reaper) add(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 && isClosed(r.idle) {
		r.idle = make(chan struct{})
	}
	r.pending = append(r.pending, index)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// flush waits until all that was added is deleted, and reports whether there was
// anything.
func (r *reaper) flush(ctx context.Context) bool {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if isClosed(idle) {
		return false
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
	return true
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// run is the reaper's goroutine. It ends with ctx; links that are left then are
// deleted at the next start.
func (r *reaper) run(ctx context.Context) {
	failing := false
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-retry:
		}
		retry = nil
		if err := r.reap(); err != nil {
			if !failing {
				r.logger.Error("Cannot delete the links of detached workloads; they are off the network, and will be tried again", zap.Error(err))
			}
			failing, retry = true, time.After(reapRetry)
			continue
		}
		failing = false
	}
}

func (r *reaper) reap() error {
	r.mu.Lock()
	todo := r.pending
	r.mu.Unlock()
	if len(todo) > 1 {
		if err := r.network.Reap(); err != nil {
			return err
		}
	}
	for _, index := range todo {
		if err := r.network.Delete(index); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = r.pending[len(todo):]
	if len(r.pending) == 0 {
		r.pending = nil
		if !isClosed(r.idle) {
			close(r.idle)
		}
	}
	return nil
}
