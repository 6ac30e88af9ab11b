// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// An observer follows one runtime. Its fields are those of the goroutine that
// runs it.
type observer struct {
	cfg    *Config
	logger *zap.Logger
	sink   source.Sink

	found   []socket // where the runtime was found that was looked for, and is from then on
	runtime *runtime // nil while there is no connection
	dials   int64    // that connections given up had made
	listed  int64    // the connection, counted from 1, on which was listed last
	known   map[string]sandbox
	round   uint64
	next    time.Time // when to list again
	synced  bool
	untold  bool // the last list succeeded, and the sink doesn't know
	silent  bool // the sink knows that it did, and that nothing was told of any sandbox

	prompt, late line
	slow         line            // the calls that gave up their places in prompt; nobody waits in it
	answers      chan callAnswer // holds one of each call, so that none waits
	asks         sync.WaitGroup

	hints  chan struct{} // from events and the watched directories; holds one
	events subscription
	netns  watcher

	lost error // why the network namespaces cannot be read, once it is said
}

func newObserver(cfg *Config, logger *zap.Logger, sink source.Sink) *observer {
	o := &observer{
		cfg: cfg, logger: logger, sink: sink,
		known:  map[string]sandbox{},
		hints:  make(chan struct{}, 1),
		prompt: line{most: maxCalls}, late: line{most: maxLate}, slow: line{most: maxSlow},
		answers: make(chan callAnswer, maxCalls+maxLate+maxSlow),
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
	o.asks.Wait()
	o.netns.close()
}

// run lists until ctx is done: every poll interval, sooner on a hint or where a
// sandbox waits for its addresses, later and later while the runtime is down.
func (o *observer) run(ctx context.Context) {
	retry := firstRetry
	for {
		began := time.Now()
		err := o.list(ctx)
		if ctx.Err() != nil {
			return
		}
		hints, refresh := o.hints, o.sink.Refresh()
		o.untold, o.silent = err == nil, false
		if err != nil {
			o.sink.Failed(err)
			// The runtime is not asked more often because somebody wants to know.
			o.next, hints, refresh = time.Now().Add(min(retry, o.cfg.PollInterval)), nil, nil
			retry = min(2*retry, o.cfg.PollInterval)
		} else {
			retry = firstRetry
		}
		if !o.wait(ctx, began.Add(leastGap), hints, refresh) {
			return
		}
	}
}

// wait takes answers until the sandboxes are to be listed again, not before
// earliest, and says whether ctx is still on.
func (o *observer) wait(ctx context.Context, earliest time.Time, hints, refresh <-chan struct{}) bool {
	for {
		o.learn(ctx)
		o.tell()
		if o.next.Before(earliest) {
			o.next = earliest
		}
		at := o.next
		if yields, will := o.yields(); will && yields.Before(at) {
			at = yields
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case a := <-o.answers:
			timer.Stop()
			if ctx.Err() == nil { // else it may be our own end's
				o.take(a)
			}
			continue
		case <-timer.C:
			if time.Now().Before(o.next) { // a call yields
				continue
			}
			return true
		case <-hints:
		case <-refresh:
		}
		timer.Stop()
		// What hints from now on is for the list after the next one.
		o.next, hints, refresh = earliest, nil, nil
	}
}

// wake has the sandboxes listed at the given time, if not before.
func (o *observer) wake(at time.Time) {
	if at.Before(o.next) {
		o.next = at
	}
}

// tell reports that a list succeeded. The first time that has to wait for what
// the sandboxes are: it ends what was known before a restart and is not said again.
func (o *observer) tell() {
	if !o.untold || !o.synced && !(o.prompt.empty() && o.slow.empty()) {
		return
	}
	o.untold = false
	if err := o.silence(); err != nil {
		o.silent = true
		o.sink.Failed(err)
		return
	}
	o.synced = true
	o.sink.Synced()
}

// list lists the sandboxes, reports which have ended, and lines up those to ask
// about.
func (o *observer) list(ctx context.Context) error {
	list := o.sandboxes
	if o.runtime == nil {
		list = o.find
	}
	items, at, err := list(ctx)
	if err != nil {
		if o.runtime != nil && status.Code(err) == codes.Unavailable {
			o.giveUp()
		}
		return err
	}
	o.next = time.Now().Add(o.cfg.PollInterval)
	if dials := o.runtime.dials.Load(); dials != o.listed {
		o.listed = dials
		o.forgetPauses()
	}
	if o.compare(items, at) && o.events.keep(o.runtime) {
		o.hint()
	}
	o.lineUp(time.Now())
	return nil
}

// compare ends what is over, and says whether sandboxes came or went.
func (o *observer) compare(items []*pb.PodSandbox, at time.Time) (changed bool) {
	o.round++
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
	}
	for id, s := range o.known {
		if s.round != o.round {
			delete(o.known, id)
			o.sink.End(id, at, true)
			changed = true
		}
	}
	return changed
}
