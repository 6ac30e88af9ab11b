// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// Limits of what vfpctrl may print: the counters of one port are some 4 KB,
	// the list has less than 1 KB a port.
	countersLimit = 256 << 10
	portsLimit    = 4 << 20
)

// form is how vfpctrl answers.
type form = int32

const (
	unknownForm form = iota
	jsonForm
	textForm
)

// vfpctrl reads VFP with vfpctrl.exe. It is safe for concurrent use.
type vfpctrl struct {
	program program
	timeout time.Duration
	// form is the one that worked last.
	form atomic.Int32
}

// counters reads a port's counters, as JSON if vfpctrl can, else as text.
func (v *vfpctrl) counters(ctx context.Context, port string) (*portCounters, error) {
	known := v.form.Load()
	var errJSON error
	if known != textForm {
		c, err := v.ask(ctx, port, "/format", "1")
		if err == nil || known == jsonForm || !refusedForm(err) {
			return c, err
		}
		errJSON = err
	}
	c, err := v.ask(ctx, port)
	if err != nil && known == unknownForm && err.Error() != errJSON.Error() {
		err = fmt.Errorf("%w; with /format 1: %w", err, errJSON)
	}
	return c, err
}

// ask runs vfpctrl once for a port's counters and remembers the form that was
// understood.
func (v *vfpctrl) ask(ctx context.Context, port string, format ...string) (*portCounters, error) {
	out, err := v.run(ctx, countersLimit, append([]string{"/port", port, "/get-port-counter"}, format...)...)
	if err != nil {
		return nil, err
	}
	c, isJSON, err := parseCounters(out)
	if err != nil {
		return nil, err
	}
	if isJSON {
		v.form.Store(jsonForm)
	} else {
		v.form.Store(textForm)
	}
	return c, nil
}

// ports reads the list of switch ports.
func (v *vfpctrl) ports(ctx context.Context) (ports, error) {
	out, err := v.run(ctx, portsLimit, "/list-vmswitch-port", "/format", "1")
	var p ports
	if err == nil {
		p, err = parsePorts(out)
	}
	if err == nil || !refusedForm(err) {
		return p, err
	}
	if out, err = v.run(ctx, portsLimit, "/list-vmswitch-port"); err != nil {
		return ports{}, err
	}
	return parsePorts(out)
}

// run runs vfpctrl for at most the timeout.
func (v *vfpctrl) run(ctx context.Context, limit int, args ...string) ([]byte, error) {
	runCtx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	out, err := v.program.run(runCtx, limit, args...)
	switch {
	case err == nil || runCtx.Err() == nil:
		return out, err
	case ctx.Err() != nil:
		return nil, errCut
	}
	return nil, &timeoutError{v.timeout}
}

// errCut says that the scrape ended before vfpctrl did.
var errCut = errors.New("vfpctrl had not answered when the scrape's time was up, and was killed")

// timeoutError says that vfpctrl was killed.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("vfpctrl gave no answer within %s and was killed", e.after)
}

// exitError says that vfpctrl ended with a failure.
type exitError struct {
	code int
	said string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("vfpctrl failed with exit code %d: %s", e.code, e.said)
}

// refusedForm reports whether an error can mean that vfpctrl doesn't know
// "/format 1", so that the text form is worth a try.
func refusedForm(err error) bool {
	var (
		exit  *exitError
		refus refusal
	)
	return errors.As(err, &exit) || errors.As(err, &refus) || errors.Is(err, errNoCounters) || errors.Is(err, errNoPorts)
}

// ofOnePort reports whether an error is what vfpctrl said of the port that it was
// asked for. A port can be gone before HNS forgets its endpoint.
func ofOnePort(err error) bool {
	var (
		timeout *timeoutError
		exit    *exitError
		refus   refusal
	)
	if errors.As(err, &timeout) {
		return false // an answer in the other form may be with it
	}
	return errors.As(err, &exit) || errors.As(err, &refus)
}

// vfpJob is what a VFP worker is to do: read an endpoint's port, or list ports.
type vfpJob struct {
	scrape uint64
	ctx    context.Context //nolint:containedctx // the scrape's, for the worker
	rec    *record         // nil for the list of ports
	port   string
}

// vfpAnswer is what came of it.
type vfpAnswer struct {
	vfpJob
	counters *portCounters
	ports    ports
	err      error
	// cut says that the scrape's end cut the run off.
	cut bool
}

func (v *vfpctrl) do(j vfpJob) vfpAnswer {
	a := vfpAnswer{vfpJob: j}
	if j.rec == nil {
		a.ports, a.err = v.ports(j.ctx)
	} else {
		a.counters, a.err = v.counters(j.ctx, j.port)
	}
	a.cut = a.err != nil && j.ctx.Err() != nil
	return a
}
