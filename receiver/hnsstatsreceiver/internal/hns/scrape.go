// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// scrape is one Read. It is a loop over what happens: a worker takes a job, a
// worker answers, time runs out. Its storage is used again by the next one.
type scrape struct {
	s       *source
	ctx     context.Context //nolint:containedctx // of this Read
	vfpCtx  context.Context //nolint:containedctx // ends at stop, and kills vfpctrl
	kill    context.CancelFunc
	visit   func(*endpoint.Endpoint, *endpoint.Counters)
	started time.Time
	stop    time.Time
	stopped bool
	timer   *time.Timer

	queue   []*record // all records, in order of reading
	listed  int       // their number; rescued ones are queued again
	next    int       // index of the first that wasn't asked
	asked   []*record // in order of asking
	oldest  int       // index of the first in asked that may be waited for
	waiting int       // records in phase asking

	rescue   []*record // records that HCN failed to describe
	rescuing rescuing

	vfpOn                              bool // vfpctrl is run in this scrape
	pending                            int  // records in phase parked or ready
	parked                             int  // records in phase parked
	reading                            int  // runs of vfpctrl
	ports                              ports
	portsAsked, portsRead, portsFailed bool
	vfpOK, vfpBad                      int
	vfpRefused                         []string // ports of which vfpctrl said so
	vfpErrs                            []error  // of runs
	portErrs                           []error  // of records without a port

	errs []error
}

// rescuing is how far the V1 list is that is read for the rescue of records.
type rescuing uint8

const (
	notRescuing rescuing = iota
	rescueAsked
	rescueLate // nobody waits for it
	rescued
)

func (sc *scrape) begin(s *source, ctx context.Context, visit func(*endpoint.Endpoint, *endpoint.Counters), stop time.Time) {
	*sc = scrape{
		s: s, ctx: ctx, visit: visit, started: time.Now(), stop: stop, timer: sc.timer,
		queue: sc.queue[:0], asked: sc.asked[:0], rescue: sc.rescue[:0],
	}
	sc.vfpCtx, sc.kill = context.WithDeadline(ctx, stop)
	if sc.timer == nil {
		sc.timer = time.NewTimer(time.Hour)
	}
	sc.vfpOn = s.vfp != nil && !sc.started.Before(s.vfpPaused)
}

// end drops what the scrape holds and its storage need not.
func (sc *scrape) end() {
	sc.kill()
	sc.timer.Stop()
	sc.ctx, sc.vfpCtx, sc.visit, sc.ports = nil, nil, nil, ports{}
}

// list gets the list of endpoints.
func (sc *scrape) list() (listing, error) {
	s := sc.s
	j := job{scrape: s.number, attached: s.withAttached(sc.started)}
	sc.timer.Reset(time.Until(sc.stop))
	for {
		jobs := s.jobs
		if !s.listing.IsZero() {
			jobs = nil // one at a time
		}
		select {
		case jobs <- j:
			s.listing = time.Now()
		case a := <-s.answers:
			switch {
			case a.rec != nil:
				a.rec.busy = time.Time{}
				continue
			case a.v1:
				s.rescuing = time.Time{}
				continue
			}
			s.listing = time.Time{}
			if a.scrape != s.number {
				continue
			}
			if a.err != nil {
				return listing{}, fmt.Errorf("list the HNS endpoints: %w", a.err)
			}
			if j.attached {
				s.attachedDue = sc.started.Add(attachedEvery)
			}
			return a.list, nil
		case a := <-s.vfpAnswers:
			_ = a // of an earlier scrape
		case <-sc.timer.C:
			return listing{}, fmt.Errorf("list the HNS endpoints: HNS has not answered since %s; if it doesn't come back, restart it with Restart-Service hns", sc.begun().Format(time.TimeOnly))
		case <-sc.ctx.Done():
			return listing{}, fmt.Errorf("list the HNS endpoints: %w", sc.ctx.Err())
		}
	}
}

// begun is when the list was asked for, in this scrape or an earlier one.
func (sc *scrape) begun() time.Time {
	if sc.s.listing.IsZero() {
		return sc.started
	}
	return sc.s.listing
}

// enqueue takes a record of the list.
func (sc *scrape) enqueue(r *record) {
	r.phase, r.err = queued, nil
	sc.queue = append(sc.queue, r)
}

// run reads all records until everything is done or time is up.
func (sc *scrape) run() {
	s := sc.s
	sc.listed = len(sc.queue)
	sc.queue = slices.DeleteFunc(sc.queue, sc.hangs)
	slices.SortFunc(sc.queue, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.vfpAsked, b.vfpAsked), cmp.Compare(a.id, b.id))
	})
	for !sc.finished() {
		jobs, j := sc.nextJob()
		vfpJobs, v := sc.nextVFPJob()
		sc.arm()
		select {
		case jobs <- j:
			sc.gave(j)
		case vfpJobs <- v:
			sc.gaveVFP(v)
		case a := <-s.answers:
			sc.answered(a)
		case a := <-s.vfpAnswers:
			sc.vfpAnswered(a)
		case <-sc.timer.C:
			sc.expire(time.Now())
		case <-sc.ctx.Done():
			sc.stopped = true
			sc.reading = 0
		}
	}
	unreached := sc.leftOver()
	if errors.Is(sc.ctx.Err(), context.Canceled) {
		return // the caller cut it off, which says nothing of VFP
	}
	s.reportUnreached(unreached, sc.listed, time.Since(sc.started))
	sc.judgeVFP()
}

// hangs reports whether a call of an earlier scrape still hangs, as another one
// would, and is the record's failure.
func (sc *scrape) hangs(r *record) bool {
	if r.busy.IsZero() {
		return false
	}
	sc.fail(r, unanswered(r))
	return true
}

// finished reports whether nothing is to be done or waited for. Nobody waits for
// the rescue that an earlier scrape asked for, and a second one would hang, too.
func (sc *scrape) finished() bool {
	if sc.stopped {
		return sc.reading == 0 // they have been killed
	}
	return sc.next == len(sc.queue) && sc.waiting == 0 && sc.pending == 0 && sc.reading == 0 &&
		(len(sc.rescue) == 0 || sc.rescuing >= rescueLate || sc.rescuing == notRescuing && !sc.s.rescuing.IsZero())
}

// nextJob returns the next job for an HNS worker, and a nil channel if there is
// none.
func (sc *scrape) nextJob() (chan<- job, job) {
	if !sc.stopped && sc.next < len(sc.queue) {
		r := sc.queue[sc.next]
		return sc.s.jobs, job{scrape: sc.s.number, rec: r, v1: r.v1, state: r.state, sum: r.sum, props: r.props}
	}
	if !sc.stopped && len(sc.rescue) > 0 && sc.rescuing == notRescuing && sc.waiting == 0 && sc.s.rescuing.IsZero() {
		return sc.s.jobs, job{scrape: sc.s.number, v1: true}
	}
	return nil, job{}
}

func (sc *scrape) gave(j job) {
	now := time.Now()
	if j.rec == nil {
		sc.rescuing, sc.s.rescuing = rescueAsked, now
		return
	}
	sc.next++
	sc.waiting++
	sc.asked = append(sc.asked, j.rec)
	j.rec.phase, j.rec.busy, j.rec.asked = asking, now, sc.s.number
}

// answered takes the answer of an HNS worker.
func (sc *scrape) answered(a answer) {
	s := sc.s
	if a.rec == nil {
		s.rescuing = time.Time{}
		if a.scrape == s.number {
			sc.rescued(a)
		}
		return
	}
	r := a.rec
	r.busy = time.Time{}
	if a.scrape != s.number {
		return
	}
	if r.phase == asking {
		sc.waiting--
	}
	if a.props != nil && (a.err == nil || !a.hcn) {
		r.learn(a.props, a.sum, s.birth)
	}
	switch {
	case a.err != nil && a.hcn && !a.v1 && sc.rescuing != rescued:
		r.err = a.err
		r.phase = done
		sc.rescue = append(sc.rescue, r)
	case a.err != nil:
		sc.fail(r, a.err)
	case !r.props.isPod(r.state):
		r.phase = done
	default:
		r.count(&a.stats)
		sc.counted(r)
	}
}

// rescued takes the V1 list for the records that HCN failed to describe. They
// keep their error: the list lacks the VFP port and may lack addresses.
func (sc *scrape) rescued(a answer) {
	sc.rescuing = rescued
	byID := make(map[string]*endpointV1, len(a.list.v1))
	for i := range a.list.v1 {
		if id, ok := normalizeGUID(a.list.v1[i].id); ok {
			byID[id] = &a.list.v1[i]
		}
	}
	for _, r := range sc.rescue {
		sc.errs = append(sc.errs, r.failure(r.err))
		if e := byID[r.id]; e != nil && e.properties().isPod(e.state) {
			sc.s.learnV1(r, e)
			r.state, r.phase = e.state, queued
			sc.queue = append(sc.queue, r)
		}
	}
}

// unanswered is the error of a call that hangs. It is the same in every scrape.
func unanswered(r *record) error {
	return fmt.Errorf("HNS has not answered since %s", r.busy.Format(time.TimeOnly))
}

var (
	errUnread    = errors.New("not reached before the scrape's time was up; it comes first next time")
	errUnreached = errors.New("VFP counters were not reached before the scrape's time was up; those left out come first next time. Make collection_interval longer to have them all each time")
)

// fail ends a record with an error.
func (sc *scrape) fail(r *record, err error) {
	r.phase = done
	sc.errs = append(sc.errs, r.failure(err))
}

// arm sets the timer to when something runs out.
func (sc *scrape) arm() {
	for sc.oldest < len(sc.asked) && sc.asked[sc.oldest].phase != asking {
		sc.oldest++
	}
	at := sc.stop
	until := func(asked time.Time) {
		if out := asked.Add(hnsPatience); out.Before(at) {
			at = out
		}
	}
	if sc.oldest < len(sc.asked) {
		until(sc.asked[sc.oldest].busy)
	}
	if sc.rescuing == rescueAsked {
		until(sc.s.rescuing)
	}
	if sc.stopped {
		at = sc.stop.Add(time.Hour) // only killed runs are waited for
	}
	sc.timer.Reset(time.Until(at))
}

// expire gives up what has run out of time.
func (sc *scrape) expire(now time.Time) {
	if !now.Before(sc.stop) {
		sc.stopped = true
	}
	for _, r := range sc.asked[sc.oldest:] {
		if r.phase == asking && now.Sub(r.busy) >= hnsPatience {
			// Its answer still counts if it comes while others are read.
			r.phase = late
			sc.waiting--
		}
	}
	if sc.rescuing == rescueAsked && now.Sub(sc.s.rescuing) >= hnsPatience {
		sc.rescuing = rescueLate // which counts as well if it comes
	}
}

// leftOver reports what was not reached, and visits what lacks only VFP, of which
// it returns the number.
func (sc *scrape) leftOver() (unreached int) {
	for _, r := range sc.queue {
		switch r.phase {
		case asking, late:
			sc.fail(r, unanswered(r))
		case queued:
			sc.fail(r, errUnread)
		case parked, ready, reading:
			unreached++
			sc.emit(r)
		case done:
		}
	}
	for _, r := range sc.rescue {
		if sc.rescuing != rescued {
			sc.fail(r, r.err)
		}
	}
	if unreached > 0 {
		// One error, and the same one as long as it is so.
		sc.errs = append(sc.errs, &endpoint.Error{Endpoint: fmt.Sprintf("(some of %d)", sc.listed), Err: errUnreached})
	}
	return unreached
}

// emit hands a record to the visitor.
func (sc *scrape) emit(r *record) {
	r.phase = done
	sc.visit(r.ep, &r.counters)
	r.visited = time.Now()
}
