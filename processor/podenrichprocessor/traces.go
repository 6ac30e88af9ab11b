// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

func (e *enricher) processTraces(ctx context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	if err := e.admit(ctx, td.SpanCount); err != nil {
		return td, err
	}
	b := e.newBatch(ctx)
	for _, rs := range td.ResourceSpans().All() {
		spans, at := 0, timeSpan{}
		for _, ss := range rs.ScopeSpans().All() {
			spans += ss.Spans().Len()
			for _, s := range ss.Spans().All() {
				at.add(s.StartTimestamp())
			}
		}
		b.resource(rs.Resource().Attributes(), spans, at)
		if len(e.peers) > 0 {
			b.spanPeers(rs)
		}
	}
	e.counters.add(ctx, &b.tally)
	return td, nil
}

// spanPeers writes the peers of a resource's spans, as of their start: then
// the peers had their addresses for certain, and may be gone at the end.
func (b *batch) spanPeers(rs ptrace.ResourceSpans) {
	for _, ss := range rs.ScopeSpans().All() {
		for _, s := range ss.Spans().All() {
			b.item(s.Attributes(), s.StartTimestamp())
		}
	}
}
