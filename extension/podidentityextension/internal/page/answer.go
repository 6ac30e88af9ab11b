// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// An answer is what /api/identities returns.
type answer struct {
	// Outcome is how a look-up of the asked key would end now, and Leases are who
	// held it and when; both only where a key was asked for.
	Outcome string  `json:"outcome,omitempty"`
	Leases  []lease `json:"leases,omitempty"`
	// Total is how many pods there are, of which Pods are Limit after the first
	// Offset.
	Total  int   `json:"total"`
	Offset int   `json:"offset"`
	Limit  int   `json:"limit"`
	Pods   []pod `json:"pods"`
}

type pod struct {
	Name         string            `json:"name"`
	Namespace    string            `json:"namespace"`
	UID          string            `json:"uid,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Addresses    []string          `json:"addresses"`
	Sandboxes    []string          `json:"sandboxes,omitempty"`
	NetNS        []uint64          `json:"netns,omitempty"`
	HNSEndpoints []string          `json:"hns_endpoints,omitempty"`
	// Since is when the first source has it from.
	Since time.Time `json:"since"`
	// Confirmed: at least one source said so in this run of the collector.
	Confirmed bool  `json:"confirmed"`
	Sources   []say `json:"sources"`
}

// A say is that a source knows a pod.
type say struct {
	Source    string    `json:"source"`
	Owner     string    `json:"owner"`
	Since     time.Time `json:"since"`
	Confirmed bool      `json:"confirmed"`
}

type lease struct {
	Name      string     `json:"name"`
	Namespace string     `json:"namespace"`
	UID       string     `json:"uid,omitempty"`
	Source    string     `json:"source"`
	Begin     time.Time  `json:"begin"`
	End       *time.Time `json:"end,omitempty"`
	Confirmed bool       `json:"confirmed"`
}

// A state is what /api/status returns.
type state struct {
	Pods    int              `json:"pods"`
	Lookups map[string]int64 `json:"lookups"`
	Sources []sourceState    `json:"sources"`
}

type sourceState struct {
	Source string `json:"source"`
	Up     bool   `json:"up"`
	// AgeSeconds is the time since its last answer, absent if it never had one.
	AgeSeconds  *float64 `json:"age_seconds,omitempty"`
	Failures    int64    `json:"failures"`
	Failure     string   `json:"failure,omitempty"`
	Unconfirmed int      `json:"unconfirmed"`
}

// A view is what the page is made from.
type view struct {
	CSS    template.CSS
	Now    time.Time
	Query  string
	Error  string
	Answer *answer
	State  *state
}

var outcomeSays = map[string]string{
	podidentity.Found.String():     "Exactly one pod holds it: data with it are named.",
	podidentity.Unknown.String():   "No source has named a pod for it: data with it stay unnamed.",
	podidentity.Ambiguous.String(): "Several live pods claim it: data with it stay unnamed, none is guessed.",
	podidentity.Ended.String():     "Nobody holds it any more: only data from before the end are named, for the grace period.",
	podidentity.Mismatch.String():  "Its holder is known to have another stronger key: data with it stay unnamed.",
}

func (s *server) answer(a *ask) *answer {
	sources := s.sources()
	ans := &answer{Offset: a.offset, Limit: a.limit, Pods: []pod{}}
	var pods []cache.Pod
	if a.keyed {
		ans.Outcome = s.outcome(a.keys).String()
		leases := s.cache.Leases(a.keys)
		for _, l := range leases[:min(len(leases), a.limit)] {
			ans.Leases = append(ans.Leases, leaseOf(&l, sources))
		}
		pods = slices.DeleteFunc(s.cache.Holding(a.keys), func(p cache.Pod) bool { return !a.matches(&p.Identity) })
		ans.Total = len(pods)
		pods = pods[min(a.offset, len(pods)):min(a.offset+a.limit, len(pods))]
	} else {
		pods, ans.Total = s.cache.Find(a.matches, a.offset, a.limit)
	}
	for i := range pods {
		ans.Pods = append(ans.Pods, podOf(&pods[i], sources))
	}
	return ans
}

// outcome is how a look-up would end. What a person typed is asked for as each
// kind of key it can be, one after another: together they would contradict each
// other.
func (s *server) outcome(q podidentity.Query) podidentity.Outcome {
	if q.UID == "" || q.UID != q.Sandbox {
		return s.cache.Peek(q)
	}
	best := podidentity.Unknown
	for _, q := range []podidentity.Query{{UID: q.UID}, {Sandbox: q.Sandbox}, {HNSEndpoint: q.HNSEndpoint}, {NetNS: q.NetNS}} {
		if outcome := s.cache.Peek(q); outcome != podidentity.Unknown && best != podidentity.Found {
			best = outcome
		}
	}
	return best
}

func podOf(p *cache.Pod, sources []Source) pod {
	out := pod{
		Name: p.Identity.Name, Namespace: p.Identity.Namespace, UID: p.Identity.UID,
		Labels: p.Identity.Labels, Addresses: []string{},
	}
	for _, e := range p.Entries {
		r := &e.Record
		for _, a := range r.Addresses {
			out.Addresses = append(out.Addresses, a.String())
		}
		out.HNSEndpoints = append(out.HNSEndpoints, r.HNSEndpoints...)
		if r.Sandbox != "" {
			out.Sandboxes = append(out.Sandboxes, r.Sandbox)
		}
		if r.NetNS != 0 {
			out.NetNS = append(out.NetNS, r.NetNS)
		}
		since := r.Begin.UTC()
		if out.Since.IsZero() || since.Before(out.Since) {
			out.Since = since
		}
		confirmed := e.Sure.IsZero()
		out.Confirmed = out.Confirmed || confirmed
		out.Sources = append(out.Sources, say{Source: sources[e.Source].Name, Owner: r.Owner, Since: since, Confirmed: confirmed})
	}
	out.Addresses, out.HNSEndpoints = once(out.Addresses), once(out.HNSEndpoints)
	out.Sandboxes, out.NetNS = once(out.Sandboxes), once(out.NetNS)
	return out
}

// once drops repetitions and keeps the order.
func once[T comparable](list []T) []T {
	kept := list[:0]
	for _, v := range list {
		if !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func leaseOf(l *cache.Lease, sources []Source) lease {
	out := lease{
		Name: l.Identity.Name, Namespace: l.Identity.Namespace, UID: l.Identity.UID,
		Source: sources[l.Source].Name, Begin: l.Begin.UTC(), Confirmed: l.Sure.IsZero(),
	}
	if !l.End.IsZero() {
		end := l.End.UTC()
		out.End = &end
	}
	return out
}

func (s *server) state() *state {
	st := &state{Pods: s.cache.Pods(), Lookups: map[string]int64{}, Sources: []sourceState{}}
	for outcome := range podidentity.NumOutcomes {
		st.Lookups[outcome.String()] = s.cache.Lookups(outcome)
	}
	for _, src := range s.sources() {
		if src.Unused {
			continue
		}
		out := sourceState{Source: src.Name, Up: src.Up, Failures: src.Failures, Failure: src.Failure, Unconfirmed: src.Unconfirmed}
		if src.Age >= 0 {
			seconds := src.Age.Seconds()
			out.AgeSeconds = &seconds
		}
		st.Sources = append(st.Sources, out)
	}
	return st
}

// age says how long ago t was, to people.
func age(now, t time.Time) string {
	switch d := max(0, now.Sub(t)); {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}

// Next is the offset of the next page, 0 if there is none.
func (a *answer) Next() int {
	if next := a.Offset + a.Limit; next < a.Total {
		return next
	}
	return 0
}

// HasPrevious says whether pods come before those shown.
func (a *answer) HasPrevious() bool { return a.Offset > 0 }

// Previous is the offset of the page before.
func (a *answer) Previous() int { return max(0, a.Offset-a.Limit) }

// First and Last number the pods that are shown, from 1.
func (a *answer) First() int { return a.Offset + 1 }

// Last is as First.
func (a *answer) Last() int { return a.Offset + len(a.Pods) }

// Age says how long ago the source last answered.
func (s *sourceState) Age() string {
	if s.AgeSeconds == nil {
		return "never"
	}
	now := time.Now()
	return age(now, now.Add(-time.Duration(*s.AgeSeconds*float64(time.Second))))
}
