// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// maxCalls bounds the status calls in flight.
const maxCalls = 8

// An observer follows one runtime. Its fields are those of the goroutine that
// runs it.
type observer struct {
	cfg    *Config
	logger *zap.Logger
	sink   source.Sink

	runtime *runtime
	dials   int64 // that connections given up had made
	known   map[string]sandbox
	round   uint64
	hints   chan struct{} // from events and the watched directories; holds one
	events  subscription
	netns   watcher

	lost error // why the network namespaces cannot be read, once it is said
}

// A sandbox is what is remembered of one that was READY.
type sandbox struct {
	round    uint64 // in which it was last listed
	netns    uint64
	complete bool  // it has its addresses, or will never have any
	verbose  bool  // its verbose information was read
	broken   bool  // its status was of no use, which was said
	asked    uint8 // how often
}

// soonAsks is how often a sandbox is asked for its addresses in quick succession.
const soonAsks = 20

func newObserver(cfg *Config, logger *zap.Logger, sink source.Sink) *observer {
	o := &observer{
		cfg: cfg, logger: logger, sink: sink,
		known: map[string]sandbox{},
		hints: make(chan struct{}, 1),
	}
	o.events.hint, o.netns.hint = o.hint, o.hint
	o.netns.logger = logger
	return o
}

// hint asks for another list. It never blocks.
func (o *observer) hint() {
	select {
	case o.hints <- struct{}{}:
	default:
	}
}

func (o *observer) close() {
	if o.runtime != nil {
		o.runtime.close()
	}
	o.events.wait()
	o.netns.close()
}

// run lists until ctx is done: every poll interval, sooner on a hint or where a
// sandbox waits for its addresses, later and later while the runtime is down.
func (o *observer) run(ctx context.Context) {
	retry := firstRetry
	for {
		began := time.Now()
		waiting, err := o.list(ctx)
		if ctx.Err() != nil {
			return
		}
		wait, hints, refresh := o.cfg.PollInterval, o.hints, o.sink.Refresh()
		switch {
		case err != nil:
			o.sink.Failed(err)
			// The runtime is not asked more often because somebody wants to know.
			wait, hints, refresh = min(retry, wait), nil, nil
			retry = min(2*retry, o.cfg.PollInterval)
		case waiting:
			o.sink.Synced()
			wait = min(firstRetry, wait)
			retry = firstRetry
		default:
			o.sink.Synced()
			retry = firstRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-hints:
		case <-refresh:
		}
		timer.Stop()
		if !sleep(ctx, leastGap-time.Since(began)) {
			return
		}
	}
}

// sleep waits for d and says whether ctx is still on.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// list lists the sandboxes and reports what changed. waiting says that some have
// no addresses yet.
func (o *observer) list(ctx context.Context) (waiting bool, err error) {
	if err := o.connect(ctx); err != nil {
		return false, err
	}
	// Subscribe first: what happens between is in the list, or makes an event.
	o.events.renew(ctx, o.runtime)
	at := time.Now()
	callCtx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	response, err := o.runtime.client.ListPodSandbox(callCtx, &pb.ListPodSandboxRequest{})
	cancel()
	if err != nil {
		err := o.runtime.explain("list the pod sandboxes", err)
		if status.Code(err) == codes.Unavailable {
			o.giveUp()
		}
		return false, err
	}
	o.round++
	unknown, changed := o.compare(response.GetItems(), at)
	if changed && o.events.keep(o.runtime) {
		o.hint()
	}
	return o.learn(ctx, unknown)
}

// connect finds the runtime. One that is away is knocked at before there is a
// connection, see giveUp.
func (o *observer) connect(ctx context.Context) error {
	if o.runtime != nil {
		return nil
	}
	s, err := findEndpoint(o.cfg.Endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	if err := knock(ctx, s); err != nil {
		return err
	}
	o.runtime, err = connect(s, o.dials)
	return err
}

// giveUp closes a connection that broke. gRPC would go on dialling by itself for
// as long as the runtime is away, and log each failure.
func (o *observer) giveUp() {
	o.runtime.close()
	o.dials = o.runtime.dials.Load()
	o.runtime = nil
}

// compare ends what is over and returns the sandboxes to ask about.
func (o *observer) compare(items []*pb.PodSandbox, at time.Time) (unknown []string, changed bool) {
	for _, item := range items {
		id := item.GetId()
		if item.GetState() != pb.PodSandboxState_SANDBOX_READY {
			if _, was := o.known[id]; was {
				delete(o.known, id)
				changed = true
			}
			// Said at every list: others may learn of it from a stale file only now.
			o.sink.End(id, at, true)
			continue
		}
		s, was := o.known[id]
		s.round = o.round
		o.known[id] = s
		changed = changed || !was
		if !s.complete {
			unknown = append(unknown, id)
		}
	}
	for id, s := range o.known {
		if s.round != o.round {
			delete(o.known, id)
			o.sink.End(id, at, true)
			changed = true
		}
	}
	return unknown, changed
}

// learn asks for the status of sandboxes, a few at a time.
func (o *observer) learn(ctx context.Context, ids []string) (waiting bool, err error) {
	answers := make([]answer, len(ids))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(maxCalls, len(ids)) {
		wg.Go(func() {
			for i := range next {
				answers[i] = o.ask(ctx, ids[i], o.known[ids[i]])
				if a := &answers[i]; a.err == nil && !a.gone {
					o.sink.Put(a.record)
				}
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	wg.Wait()

	var failed []error
	for i, a := range answers {
		id := ids[i]
		switch {
		case a.gone: // since the list; the next one will say so
			waiting = true
		case a.unanswered:
			failed = append(failed, a.err)
		default:
			if a.err != nil && !o.known[id].broken {
				o.logger.Warn("Cannot tell which pod a sandbox is", zap.Error(a.err))
			}
			o.known[id] = a.sandbox
			waiting = waiting || !a.sandbox.complete && a.sandbox.asked < soonAsks
			o.netns.watch(a.netnsPath)
			o.noteNetNS(a.netnsErr)
		}
	}
	if len(failed) > 1 { // one is enough to act on
		return waiting, fmt.Errorf("%w (and %d more)", failed[0], len(failed)-1)
	}
	return waiting, errors.Join(failed...)
}

// noteNetNS says once that network namespaces cannot be read: pods are still
// found by address.
func (o *observer) noteNetNS(err error) {
	if err == nil || o.lost != nil {
		return
	}
	o.lost = err
	o.logger.Warn("Cannot tell a sandbox's network namespace: its pod is found by its addresses only", zap.Error(err))
}
