// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func (e *enricher) processTraces(ctx context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	if err := e.admit(ctx, td.SpanCount); err != nil {
		return td, err
	}
	b := e.newBatch(ctx)
	for _, rs := range td.ResourceSpans().All() {
		spans, at := 0, timeSpan{}
		visitSpans(rs, func(_ pcommon.Map, ts pcommon.Timestamp) {
			spans++
			at.add(ts)
		})
		b.resource(rs.Resource().Attributes(), spans, at)
		if len(e.peers) > 0 {
			visitSpans(rs, b.item)
		}
	}
	e.counters.add(ctx, &b.tally)
	return td, nil
}

// visitSpans calls visit for each span of a resource, with its start: then the
// peers had their addresses for certain, and may be gone when it ends.
func visitSpans(rs ptrace.ResourceSpans, visit func(pcommon.Map, pcommon.Timestamp)) {
	for _, ss := range rs.ScopeSpans().All() {
		for _, s := range ss.Spans().All() {
			visit(s.Attributes(), s.StartTimestamp())
		}
	}
}
