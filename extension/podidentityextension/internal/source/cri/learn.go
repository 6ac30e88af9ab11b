// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	// maxCalls bounds the status calls in flight, maxLate those for sandboxes of
	// which the runtime did not tell in time before: these hold up no others.
	maxCalls = 8
	maxLate  = 2
	// patience is how long a call keeps its place while others wait. Then it goes
	// on without, and maxSlow bounds those that do: with all others and the list
	// they are less than the 100 that an HTTP/2 server should take at once (RFC
	// 9113, 6.5.2), beyond which the list would wait for them.
	patience = 250 * time.Millisecond
	maxSlow  = 80
	// longestPause is the longest wait before a sandbox that was late is asked again.
	longestPause = 5 * time.Minute
	// soonAsks is how often a sandbox is asked for its addresses in quick succession.
	soonAsks = 20
)

// A sandbox is what is remembered of one that was READY.
type sandbox struct {
	round    uint64 // in which it was last listed
	netns    uint64
	complete bool  // it has its addresses, or will never have any
	verbose  bool  // its verbose information was read
	broken   bool  // its status was of no use, which was said
	asking   bool  // a call is in flight
	asked    uint8 // how often

	unanswered error         // why it has no name, where the runtime did not answer
	pause      time.Duration // after a call that ran into its deadline or had no verbose information, doubles with each
	after      time.Time     // when the pause is over
}

// due says whether a sandbox is to be asked, and whether for its verbose
// information. Before the pause is over, only what could be answered is asked for.
func (s sandbox) due(now time.Time) (ask, verbosely bool) {
	paused := now.Before(s.after)
	verbosely = verbose && !s.verbose && !paused
	return verbosely || !s.complete && (s.unanswered == nil || !paused), verbosely
}

// A line is a queue of sandboxes to ask about, and the calls in flight.
type line struct {
	ids   []string
	calls []*call // the oldest first
	most  int
}

func (l *line) empty() bool { return len(l.calls) == 0 && len(l.ids) == 0 }
func (l *line) full() bool  { return len(l.calls) >= l.most }

// A call has a place in a line.
type call struct {
	line  *line
	began time.Time
}

func (c *call) enter(l *line) {
	c.line = l
	l.calls = append(l.calls, c)
}

func (c *call) leave() {
	i := slices.Index(c.line.calls, c)
	c.line.calls = slices.Delete(c.line.calls, i, i+1)
}

func (o *observer) lineOf(s sandbox) *line {
	if s.pause > 0 {
		return &o.late
	}
	return &o.prompt
}

// forgetPauses has all be asked that waits: the runtime was restarted, and that may
// have cured it. A connection that broke shows it, also where no list failed.
func (o *observer) forgetPauses() {
	for id, s := range o.known {
		s.pause, s.after = 0, time.Time{}
		o.known[id] = s
	}
}

// lineUp renews the lines after a list.
func (o *observer) lineUp(now time.Time) {
	o.prompt.ids, o.late.ids = nil, nil
	for id, s := range o.known {
		if s.asking {
			continue
		}
		if ask, _ := s.due(now); ask {
			l := o.lineOf(s)
			l.ids = append(l.ids, id)
		} else if now.Before(s.after) {
			o.wake(s.after)
		}
	}
}

// learn asks about the sandboxes in the lines, a few at a time. Their answers come
// through o.answers.
func (o *observer) learn(ctx context.Context) {
	if o.runtime == nil {
		return // the next list lines them up again
	}
	for _, l := range []*line{&o.prompt, &o.late} {
		for len(l.ids) > 0 && (!l.full() || l == &o.prompt && o.yield()) {
			id := l.ids[0]
			l.ids = l.ids[1:]
			s := o.known[id]
			now := time.Now()
			_, verbosely := s.due(now)
			s.asking = true
			o.known[id] = s
			c := &call{began: now}
			c.enter(l)
			r := o.runtime
			o.asks.Go(func() {
				o.answers <- callAnswer{c, ask(ctx, r, o.cfg.Timeout, id, verbosely)}
			})
		}
	}
}

// yield has the oldest call in the prompt line give up its place, if it is slow.
func (o *observer) yield() bool {
	at, will := o.yields()
	if !will || time.Now().Before(at) {
		return false
	}
	c := o.prompt.calls[0]
	c.leave()
	c.enter(&o.slow)
	return true
}

// yields says when the oldest call in the prompt line is to give up its place to a
// sandbox that waits, if it will.
func (o *observer) yields() (at time.Time, will bool) {
	if o.runtime == nil || len(o.prompt.ids) == 0 || !o.prompt.full() || o.slow.full() {
		return time.Time{}, false
	}
	return o.prompt.calls[0].began.Add(patience), true
}

type callAnswer struct {
	*call
	answer
}

// take notes an answer and reports what it says. One about a sandbox that has
// been seen to be dead meanwhile says nothing.
func (o *observer) take(a callAnswer) {
	a.leave()
	s, listed := o.known[a.id]
	if !listed {
		return
	}
	s.asking = false
	s.asked = min(s.asked+1, soonAsks)
	now := time.Now()
	if a.late || a.netnsErr != nil && !a.verbose {
		s.pause = min(max(2*s.pause, 2*o.cfg.Timeout), longestPause)
		s.after = now.Add(s.pause)
	}
	switch {
	case a.gone: // since the list; the next one will say so
	case a.err != nil && s.complete: // only its namespace was asked for
	case a.err != nil:
		s.unanswered = nil
		if a.unanswered {
			s.unanswered = a.err
		}
		if !s.broken && (a.late || !a.unanswered) { // else the runtime went away
			o.logger.Warn("Cannot tell which pod a sandbox is", zap.Error(a.err))
			s.broken = true
		}
	default:
		s.complete, s.broken, s.unanswered = a.complete, false, nil
		if a.verbose {
			s.netns, s.verbose = a.netns, true
			o.netns.watch(a.netnsPath)
		}
		a.record.NetNS = s.netns
		o.sink.Put(a.record)
		o.untold, o.silent = o.untold || o.silent, false
		o.noteNetNS(a.netnsErr)
	}
	o.known[a.id] = s
	switch ask, _ := s.due(now); {
	case ask && s.asked < soonAsks:
		o.wake(now.Add(firstRetry))
	case now.Before(s.after):
		o.wake(s.after)
	}
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

// silence returns an error if the runtime lists sandboxes and tells of none of
// them: whether one is told of late is that sandbox's matter.
func (o *observer) silence() error {
	first, failed := "", 0
	for id, s := range o.known {
		if s.unanswered == nil {
			return nil
		}
		if failed++; first == "" || id < first { // the same one each time
			first = id
		}
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return o.known[first].unanswered
	}
	return fmt.Errorf("%w (and %d more)", o.known[first].unanswered, failed-1)
}
