// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

func (e *enricher) processLogs(ctx context.Context, ld plog.Logs) (plog.Logs, error) {
	if err := e.admit(ctx, ld.LogRecordCount); err != nil {
		return ld, err
	}
	b := e.newBatch(ctx)
	for _, rl := range ld.ResourceLogs().All() {
		records, at := 0, timeSpan{}
		visitRecords(rl, func(_ pcommon.Map, ts pcommon.Timestamp) {
			records++
			at.add(ts)
		})
		b.resource(rl.Resource().Attributes(), records, at)
		if len(e.peers) > 0 {
			visitRecords(rl, b.item)
		}
	}
	e.counters.add(ctx, &b.tally)
	return ld, nil
}

// visitRecords calls visit for each log record of a resource.
func visitRecords(rl plog.ResourceLogs, visit func(pcommon.Map, pcommon.Timestamp)) {
	for _, sl := range rl.ScopeLogs().All() {
		for _, r := range sl.LogRecords().All() {
			ts := r.Timestamp()
			if ts == 0 {
				// The data model's advice for records whose own time is unknown.
				ts = r.ObservedTimestamp()
			}
			visit(r.Attributes(), ts)
		}
	}
}
