// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// job is what an HNS worker is to do: list the endpoints, or ask one endpoint.
type job struct {
	scrape uint64
	// rec is the endpoint to ask, nil for a list.
	rec *record
	// v1 asks for the V1 list, or for an endpoint's statistics only.
	v1 bool
	// attached lists the endpoints in state "attached" as well.
	attached bool
	// state, sum and props are the record's when the job was made: the record
	// itself belongs to the reader.
	state endpointState
	sum   uint64
	props *properties
}

// answer is what came of a job.
type answer struct {
	job
	list listing
	// stats are valid if err is nil and props.isPod.
	stats statistics
	err   error
	// hcn says that err is HCN's failure to describe the endpoint; the V1 list
	// may still have it.
	hcn bool
}

// listing is the list of endpoints in one of two forms.
type listing struct {
	// shared and attached are the GUIDs of the endpoints in these states.
	shared, attached []string
	// v1 is the older list, with why it was asked for.
	v1  []endpointV1
	why error
}

// worker does one job at a time.
type worker struct {
	calls calls
	seed  maphash.Seed
	buf   []byte // the last JSON answer of HCN
}

// do does a job. It is the boundary to HNS: hcsshim v0.14.1 panics when a DLL or
// one of its exports is missing (hcn.checkForErrors), and that ends here.
func (w *worker) do(j job) (a answer) {
	a.job = j
	defer func() {
		if p := recover(); p != nil {
			a.err = fmt.Errorf("a call into HNS panicked, which it does when a DLL of Windows lacks what hcsshim needs: %v", p)
		}
	}()
	switch {
	case j.rec == nil && j.v1:
		a.list.v1, a.err = w.listV1()
	case j.rec == nil:
		a.list, a.err = w.list(j.attached)
	default:
		w.ask(&a)
	}
	return a
}

// list asks HCN for the endpoints, again if it fails, and then the older
// interface.
func (w *worker) list(withAttached bool) (l listing, err error) {
	for range hnsListTries {
		if l.shared, err = w.enumerate(attachedSharing); err == nil && withAttached {
			l.attached, err = w.enumerate(attached)
		}
		if err == nil || errors.Is(err, accessDenied) {
			break
		}
	}
	if err == nil {
		return l, nil
	}
	v1, errV1 := w.listV1()
	if errV1 != nil {
		return listing{}, errors.Join(err, errV1)
	}
	return listing{v1: v1, why: err}, nil
}

func (w *worker) enumerate(state endpointState) (ids []string, err error) {
	if w.buf, err = w.calls.enumerate(state, w.buf[:0]); err == nil {
		ids, err = parseIDs(w.buf)
	}
	if err != nil {
		return nil, fmt.Errorf("HCN's list of endpoints: %w", err)
	}
	return ids, nil
}

func (w *worker) listV1() ([]endpointV1, error) {
	list, err := w.calls.endpointsV1()
	switch {
	case err != nil:
		return nil, fmt.Errorf("HNS's older list of endpoints: %w", err)
	case list == nil:
		return nil, errors.New("HNS's older list of endpoints: an answer without content")
	}
	return list, nil
}

// ask reads an endpoint's properties, unless the V1 list had them, and its
// statistics.
func (w *worker) ask(a *answer) {
	if !a.v1 {
		if err := w.describe(a); err != nil {
			a.err, a.hcn = fmt.Errorf("HCN's properties: %w", err), !vanished(err)
			return
		}
	}
	if !a.props.isPod(a.state) {
		return
	}
	var err error
	if a.stats, err = w.calls.statistics(a.rec.id); err == nil {
		err = checkStatistics(a.rec.id, &a.stats)
	}
	if err != nil {
		a.err = fmt.Errorf("HNS's statistics: %w", err)
	}
}

// describe reads an endpoint's properties. Those that have not changed are not
// parsed again.
func (w *worker) describe(a *answer) (err error) {
	if w.buf, err = w.calls.properties(a.rec.id, w.buf[:0]); err != nil {
		return err
	}
	sum := maphash.Bytes(w.seed, w.buf)
	if a.props != nil && sum == a.sum {
		return nil
	}
	p, err := parseEndpoint(a.rec.id, w.buf)
	if err != nil {
		return err
	}
	a.props, a.sum = p, sum
	return nil
}
