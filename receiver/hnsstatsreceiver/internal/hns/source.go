// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// closePatience is how long Close waits for calls into HNS that still run.
const closePatience = 5 * time.Second

// leftFor is how long an endpoint that is gone is remembered: a list can lack one
// for a while that is still there.
const leftFor = time.Hour

// calmAfter is how many scrapes in a row must reach all endpoints before VFP counts
// as fast enough.
const calmAfter = 30

// source implements endpoint.Source.
type source struct {
	cfg   Config
	log   *zap.Logger
	calls calls
	vfp   *vfpctrl // nil if disabled

	// Channels to and from the workers. Answers have room for one a worker, so
	// that a worker never waits for a reader.
	jobs       chan job
	answers    chan answer
	vfpJobs    chan vfpJob
	vfpAnswers chan vfpAnswer

	workers sync.WaitGroup
	started bool

	// What follows belongs to the caller of Read.
	number  uint64 // of the scrape
	births  uint64
	turn    uint64 // of vfpctrl
	records map[string]*record
	// gone has the addresses of the endpoints that this scrape's list has no more, or
	// had no more since the last one with those in state "attached", and when they
	// were visited last.
	gone   map[netip.Addr]time.Time
	left   map[string]departure // of the endpoints that are gone, for leftFor
	scrape scrape

	// listing is when the list was asked for that hasn't come, zero if it has.
	listing time.Time
	// rescuing is the same for the V1 list that a scrape asked for to rescue records.
	rescuing time.Time
	// shared is the number of endpoints in state "attached-sharing".
	shared int
	// listedAt is when the endpoints in a state were listed last.
	listedAt map[endpointState]time.Time
	// attachedDue is when those in state "attached" are to be listed again, if
	// hasAttached doesn't say that there are pods among them.
	attachedDue time.Time
	hasAttached bool
	// What was reported: the older list is read, VFP is down, VFP is too slow, which
	// is until so many more scrapes have reached all endpoints.
	v1Listed, vfpDown bool
	vfpSlow           int
	// vfpPaused is until when vfpctrl is left alone.
	vfpPaused time.Time
}

// departure is what is kept of an endpoint that is gone.
type departure struct {
	at time.Time
	// absent is when the endpoint was known not to be there yet, if it was never
	// visited: all that it counts is still to be told. One in state "attached" that
	// waits for its container is gone whenever that state isn't listed.
	absent time.Time
}

func newSource(cfg Config, set component.TelemetrySettings, c calls, p program) *source {
	s := &source{
		cfg:      cfg,
		log:      set.Logger,
		calls:    c,
		records:  make(map[string]*record),
		gone:     make(map[netip.Addr]time.Time),
		left:     make(map[string]departure),
		listedAt: make(map[endpointState]time.Time),
	}
	if cfg.VFP.Enabled {
		s.vfp = &vfpctrl{program: p, timeout: cfg.VFP.Timeout}
	}
	return s
}

// Start starts the workers.
func (s *source) Start(context.Context) error {
	if err := s.calls.available(); err != nil {
		return fmt.Errorf("this Windows can't tell its network endpoints: %w; they come with the feature Containers (Install-WindowsFeature Containers)", err)
	}
	s.jobs, s.answers = make(chan job), make(chan answer, hnsInFlight)
	s.vfpJobs, s.vfpAnswers = make(chan vfpJob), make(chan vfpAnswer, vfpInFlight)
	seed := maphash.MakeSeed()
	for range hnsInFlight {
		w := worker{calls: s.calls, seed: seed}
		s.workers.Go(func() {
			for j := range s.jobs {
				s.answers <- w.do(j)
			}
		})
	}
	if s.vfp != nil {
		for range vfpInFlight {
			s.workers.Go(func() {
				for j := range s.vfpJobs {
					s.vfpAnswers <- s.vfp.do(j)
				}
			})
		}
	}
	s.started = true
	return nil
}

// Close ends the workers. A call that hangs inside HNS can't be ended: Close
// waits a while for it and then says so.
func (s *source) Close() error {
	if !s.started {
		return nil
	}
	s.started = false
	close(s.jobs)
	close(s.vfpJobs)
	ended := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(ended)
	}()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-ended:
		return nil
	case <-patience.C:
		return fmt.Errorf("calls into HNS have not returned within %s of the shutdown; they end with the process", closePatience)
	}
}

// Read lists the endpoints, asks each for its counters, and visits it.
func (s *source) Read(ctx context.Context, visit func(*endpoint.Endpoint, *endpoint.Counters)) error {
	if !s.started {
		return errors.New("the source of HNS endpoints is not started")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = begin.Add(s.cfg.Deadline)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	s.number++
	sc := &s.scrape
	sc.begin(s, ctx, visit, stopBefore(begin, deadline))
	defer sc.end()
	l, err := sc.list()
	if err != nil {
		return err
	}
	s.reconcile(l)
	s.listedAt[attachedSharing] = begin
	if l.attached != nil || l.v1 != nil {
		s.listedAt[attached] = begin
	}
	sc.run()
	s.hasAttached = false
	for _, r := range s.records {
		s.hasAttached = s.hasAttached || r.state == attached && (r.props == nil || r.props.isPod(attached))
	}
	return errors.Join(sc.errs...)
}

// stopBefore is when to begin nothing more and to kill what can be killed, so
// that the scrape ends within its deadline.
func stopBefore(begin, deadline time.Time) time.Time {
	return deadline.Add(-min(deadline.Sub(begin)/10, time.Second))
}

// reconcile makes the records those of the list, and queues them.
func (s *source) reconcile(l listing) {
	s.reportList(l)
	changed := len(l.shared) != s.shared
	s.shared = len(l.shared)
	for _, id := range l.shared {
		_, known := s.records[id]
		changed = changed || !known
		s.list(id, attachedSharing)
	}
	for _, id := range l.attached {
		s.list(id, attached)
	}
	for i := range l.v1 {
		e := &l.v1[i]
		if id, ok := normalizeGUID(e.id); ok && e.properties().isPod(e.state) {
			s.learnV1(s.list(id, e.state), e)
		}
	}
	if s.listedAt[attached].Equal(s.listedAt[attachedSharing]) {
		clear(s.gone) // else the list before did not have the attached ones
	}
	maps.DeleteFunc(s.left, func(_ string, d departure) bool {
		return s.scrape.started.Sub(d.at) > leftFor
	})
	for id, r := range s.records {
		if r.listed == s.number {
			continue
		}
		delete(s.records, id)
		s.left[id] = departure{at: s.scrape.started, absent: r.untold()}
		if r.ep == nil {
			continue
		}
		for _, a := range r.ep.Addresses {
			if r.visited.After(s.gone[a]) {
				s.gone[a] = r.visited
			}
		}
	}
	if changed {
		// This is when an endpoint may show itself that isn't shared.
		s.attachedDue = time.Time{}
	}
}

// list returns the record of a listed endpoint, and queues it.
func (s *source) list(id string, state endpointState) *record {
	r := s.records[id]
	if r == nil {
		r = &record{id: id, absent: s.listedAt[state]}
		if d, back := s.left[id]; back {
			r.absent = d.absent
			delete(s.left, id)
		}
		s.records[id] = r
	}
	if r.listed != s.number { // else its state changed between two lists
		r.listed, r.state, r.v1 = s.number, state, false
		s.scrape.enqueue(r)
	}
	return r
}

// learnV1 takes what the V1 list says of an endpoint.
func (s *source) learnV1(r *record, e *endpointV1) {
	p := e.properties()
	if r.props != nil && r.props.mac == p.mac {
		p.port = r.props.port // the V1 list doesn't say
	}
	r.v1 = true
	r.learn(p, 0, s.birth)
}

// birth returns an identity that no endpoint has had. HNS doesn't say when it made
// an endpoint: it was not there yet in the list before, and its predecessor, which
// had its address, was counted later than that. When an endpoint was made anew with
// the same GUID between two lists, or was visited and comes back after one that lacked
// it, nothing is known.
func (s *source) birth(r *record, p *properties) (string, time.Time) {
	s.births++
	id := "hns#" + strconv.FormatUint(s.births, 10)
	if r.ep != nil || r.absent.IsZero() {
		return id, time.Time{}
	}
	created := r.absent
	for _, a := range p.addresses {
		if before := s.gone[a]; before.After(created) {
			created = before
		}
	}
	return id, created
}

// reportList reports a change from HCN's list to the older one, and back.
func (s *source) reportList(l listing) {
	if v1 := l.why != nil; v1 != s.v1Listed {
		s.v1Listed = v1
		if v1 {
			s.log.Warn("HCN doesn't list the endpoints; the older HNS list is read instead, which has no VFP port and at most two addresses an endpoint", zap.Error(l.why))
		} else {
			s.log.Info("HCN lists the endpoints again")
		}
	}
}

// withAttached decides whether the next list has the endpoints in state
// "attached".
func (s *source) withAttached(now time.Time) bool {
	return s.hasAttached || !now.Before(s.attachedDue)
}

// reportUnreached reports when VFP becomes too slow for all endpoints, and when it
// no longer is: not by one scrape, or a busy node would have it in its log all the
// time.
func (s *source) reportUnreached(unreached, of int, after time.Duration) {
	switch {
	case unreached > 0:
		if s.vfpSlow == 0 {
			s.log.Warn("vfpctrl is too slow to read the VFP counters of all endpoints in a scrape: they take turns",
				zap.Int("not_reached", unreached), zap.Int("endpoints", of), zap.Duration("after", after))
		}
		s.vfpSlow = calmAfter
	case s.vfpSlow > 0:
		if s.vfpSlow--; s.vfpSlow == 0 {
			s.log.Info("The VFP counters of all endpoints are read in each scrape again", zap.Int("endpoints", of))
		}
	}
}
