// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// now is what a podidentity.Query takes for it.
var now time.Time

// timeSpan is the time that a resource's data is about, from the first
// timestamp to the last one. The zero value has none.
type timeSpan struct {
	first, last pcommon.Timestamp
	// untimed says that there is data without a timestamp, which means now.
	untimed bool
}

func (s *timeSpan) add(ts pcommon.Timestamp) {
	switch {
	case ts == 0:
		s.untimed = true
	case s.last == 0:
		s.first, s.last = ts, ts
	case ts < s.first:
		s.first = ts
	case ts > s.last:
		s.last = ts
	}
}

// begin is the first timestamp, or now without any.
func (s *timeSpan) begin() time.Time {
	if s.last == 0 {
		return now
	}
	return s.first.AsTime()
}
