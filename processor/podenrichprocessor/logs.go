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
		for _, sl := range rl.ScopeLogs().All() {
			records += sl.LogRecords().Len()
			for _, r := range sl.LogRecords().All() {
				at.add(recordTime(r))
			}
		}
		b.resource(rl.Resource().Attributes(), records, at)
		if len(e.peers) > 0 {
			b.recordPeers(rl)
		}
	}
	e.counters.add(ctx, &b.tally)
	return ld, nil
}

// recordPeers writes the peers of a resource's log records.
func (b *batch) recordPeers(rl plog.ResourceLogs) {
	for _, sl := range rl.ScopeLogs().All() {
		for _, r := range sl.LogRecords().All() {
			b.item(r.Attributes(), recordTime(r))
		}
	}
}

// recordTime is when a record's event happened or, where that is unknown, was
// observed, as the logs data model advises.
func recordTime(r plog.LogRecord) pcommon.Timestamp {
	if ts := r.Timestamp(); ts != 0 {
		return ts
	}
	return r.ObservedTimestamp()
}
