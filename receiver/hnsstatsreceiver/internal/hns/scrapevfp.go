// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"
)

// vfpGiveUp is after how many failures without one success a scrape stops to run
// vfpctrl.
const vfpGiveUp = 2 * vfpInFlight

// counted takes a record whose HNS counters were read on to VFP.
func (sc *scrape) counted(r *record) {
	switch {
	case !sc.vfpOn:
		sc.emit(r)
	case r.props.port != "" || r.portAsked && r.port != "":
		r.phase = ready
		sc.pending++
	case sc.portsRead:
		sc.findPort(r)
	case r.portAsked:
		sc.portless(r)
	case sc.portsFailed:
		sc.emit(r) // the list is read again next time
	default:
		// The list of ports is read when an endpoint is new, not every time.
		r.phase = parked
		sc.pending++
		sc.parked++
	}
}

// findPort looks a record up in the list of ports that this scrape read.
func (sc *scrape) findPort(r *record) {
	r.portAsked = true
	if r.port = sc.ports.of(r.id, r.props.mac); r.port != "" {
		r.phase = ready
		sc.pending++
		return
	}
	sc.portless(r)
}

// portless visits a record that has no port in the list, which is its failure for
// as long as it is so.
func (sc *scrape) portless(r *record) {
	sc.portErrs = append(sc.portErrs, r.failure(fmt.Errorf(
		"no port of the virtual switch has its MAC address %q, or more than one has: it gets no VFP counters", r.props.mac)))
	sc.emit(r)
}

// nextVFPJob returns the next job for a VFP worker, and a nil channel if there is
// none: the list of ports, then the record that waited the longest.
func (sc *scrape) nextVFPJob() (chan<- vfpJob, vfpJob) {
	if sc.stopped || sc.pending == 0 || sc.vfpCtx.Err() != nil {
		return nil, vfpJob{} // the context can end before the loop sees the time
	}
	j := vfpJob{scrape: sc.s.number, ctx: sc.vfpCtx}
	if sc.parked > 0 && !sc.portsAsked {
		return sc.s.vfpJobs, j
	}
	for _, r := range sc.queue {
		if r.phase == ready && (j.rec == nil || r.vfpAsked < j.rec.vfpAsked) {
			j.rec = r
		}
	}
	if j.rec == nil {
		return nil, vfpJob{}
	}
	if j.port = j.rec.props.port; j.port == "" {
		j.port = j.rec.port
	}
	return sc.s.vfpJobs, j
}

func (sc *scrape) gaveVFP(j vfpJob) {
	sc.reading++
	if j.rec == nil {
		sc.portsAsked = true
		return
	}
	sc.pending--
	sc.s.turn++
	j.rec.phase, j.rec.vfpBefore, j.rec.vfpAsked = reading, j.rec.vfpAsked, sc.s.turn
}

// vfpAnswered takes the answer of a VFP worker.
func (sc *scrape) vfpAnswered(a vfpAnswer) {
	if a.scrape != sc.s.number {
		return
	}
	sc.reading--
	if a.cut && (a.rec == nil || !a.rec.cut) {
		// Not reached: leftOver reports it. It keeps its place in the rotation,
		// but only once, or one that always hangs would keep a worker for good.
		if a.rec != nil {
			a.rec.cut, a.rec.vfpAsked = true, a.rec.vfpBefore
		}
		return
	}
	if a.err != nil {
		sc.vfpFailed(a)
	}
	if a.rec == nil {
		sc.portsAnswered(a)
		return
	}
	a.rec.cut = false
	if a.err == nil {
		sc.vfpOK++
		a.rec.countVFP(a.counters)
	}
	sc.emit(a.rec)
}

// portsAnswered takes the list of ports to the records that wait for it, and to
// those that an earlier one had no port of: one left behind may be gone, or theirs
// be there, and the next scrape reads it.
func (sc *scrape) portsAnswered(a vfpAnswer) {
	sc.ports, sc.portsRead, sc.portsFailed = a.ports, a.err == nil, a.err != nil
	for _, r := range sc.queue {
		switch {
		case r.phase == parked:
			sc.pending--
			sc.parked--
			if sc.portsFailed {
				sc.emit(r)
			} else {
				sc.findPort(r)
			}
		case sc.portsRead && r.portAsked && r.port == "":
			r.port = sc.ports.of(r.id, r.props.mac)
		}
	}
}

func (sc *scrape) vfpFailed(a vfpAnswer) {
	switch {
	case a.cut: // which says nothing of vfpctrl
	case a.rec == nil || !ofOnePort(a.err):
		sc.vfpBad++
	case !slices.Contains(sc.vfpRefused, a.port):
		sc.vfpRefused = append(sc.vfpRefused, a.port)
	}
	if a.rec != nil {
		var refused refusal
		if errors.As(a.err, &refused) {
			a.rec.portAsked = false // the port may be another one now
		}
		sc.vfpErrs = append(sc.vfpErrs, a.rec.failure(a.err))
	} else {
		for _, r := range sc.queue {
			if r.phase == parked {
				sc.vfpErrs = append(sc.vfpErrs, r.failure(fmt.Errorf("the list of switch ports: %w", a.err)))
			}
		}
	}
	if missing := errors.Is(a.err, fs.ErrNotExist); missing || sc.vfpOK == 0 && sc.vfpFaults() >= vfpGiveUp {
		sc.abandonVFP()
	}
}

// vfpFaults is how many failures speak against vfpctrl. A port that it refuses does
// so only if it refuses another one, too.
func (sc *scrape) vfpFaults() int {
	if len(sc.vfpRefused) < 2 {
		return sc.vfpBad
	}
	return sc.vfpBad + len(sc.vfpRefused)
}

// abandonVFP visits all records that wait for VFP without it.
func (sc *scrape) abandonVFP() {
	sc.vfpOn = false
	sc.pending, sc.parked = 0, 0
	for _, r := range sc.queue {
		if r.phase == parked || r.phase == ready {
			sc.emit(r)
		}
	}
}

// judgeVFP decides from a scrape's runs whether vfpctrl works, reports a change,
// and leaves it alone for a while if it doesn't.
func (sc *scrape) judgeVFP() {
	s := sc.s
	switch {
	case sc.vfpOK > 0:
		if s.vfpDown {
			s.log.Info("vfpctrl works again: VFP counters are read")
		}
		s.vfpDown = false
	case sc.vfpFaults() > 0:
		s.vfpPaused = time.Now().Add(vfpPause)
		s.vfp.form.Store(unknownForm)
		if s.vfpDown {
			return // known
		}
		s.vfpDown = true
		s.log.Warn("vfpctrl doesn't work: there are no TCP and access-list counters until it does, HNS counters go on. "+
			"If this node has no VFP, set hns::vfp::enabled to false",
			zap.Error(sc.vfpErrs[0]), zap.Duration("retry_after", vfpPause))
	case len(sc.vfpRefused) > 0:
		s.vfp.form.Store(unknownForm) // it may be the form that is refused
	}
	sc.errs = append(sc.errs, sc.vfpErrs...)
	sc.errs = append(sc.errs, sc.portErrs...)
}
