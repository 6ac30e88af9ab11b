// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package source is what a source of identities and the extension's cache say
// to each other. A source only observes and reports; leases, grace periods,
// merging and metrics are the cache's.
package source

import (
	"context"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// Source observes one place that knows pods.
type Source interface {
	// Start begins to observe in the background and returns without waiting for
	// the outside; it fails only on what no retry can mend. The source reports
	// to sink until Shutdown.
	Start(ctx context.Context, sink Sink) error
	// Shutdown ends every goroutine of the source and waits for them, at most
	// until ctx is done. It is safe twice and without Start.
	Shutdown(ctx context.Context) error
}

// Sink takes what a source sees. It is safe for concurrent use and never blocks
// on I/O. Records are copied where the sink keeps them.
//
// A record may lack Identity.Name when the source knows keys and not whose they
// are (a state file without pod names): its keys then belong to the pod that
// another source knows by the same Sandbox, and to none as long as none does.
type Sink interface {
	// Replace states everything the source knows now: owners that it leaves out
	// have lost their keys at the given time. It marks the source as synced and
	// healthy.
	Replace(records []podidentity.Record, at time.Time)
	// Put begins or updates one owner.
	Put(record podidentity.Record)
	// End ends owner's lease. terminal says that the source saw the pod itself
	// end (a stopped sandbox, a Succeeded pod, a deletion), not merely that the
	// source no longer lists it. Where owner is a sandbox, or has one, a terminal
	// end says that this sandbox is dead, also to sources that go on listing it;
	// an owner that was never put can be ended so, too.
	End(owner string, at time.Time, terminal bool)
	// Synced marks a source as synced and healthy without a new answer: one that
	// reports single changes, or one whose last answer still stands.
	Synced()
	// Failed reports an attempt that got no answer; what is known stays. err says
	// what was attempted on what, for the operator. The sink counts every attempt
	// and logs each wording once until the source answers again.
	Failed(err error)
	// Refresh returns a channel that receives when a look-up missed and a fresh
	// listing might help. Sources that poll re-list on it, at a bounded rate;
	// others may ignore it.
	Refresh() <-chan struct{}
	// Wanted returns the keys of the pod labels and annotations that somebody
	// asks for (podidentity.Resolver.Want). It is complete once every component
	// of the collector has started, so a source that keeps nothing else is
	// started only then. The slices must not be changed.
	Wanted() (labels, annotations []string)
}
