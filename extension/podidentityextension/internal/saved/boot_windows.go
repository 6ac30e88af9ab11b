// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"time"

	"golang.org/x/sys/windows"
)

// bootDrift is how far the time of one boot, reckoned twice, may differ: the
// wall clock is corrected meanwhile, the time since the boot is not. No machine
// starts twice in less; a clock that was set by more costs what was saved.
const bootDrift = 15 * time.Second

// Boot names the running boot of the machine by its time: Windows has no id.
func Boot() (string, error) {
	return time.Now().Add(-windows.DurationSinceBoot()).UTC().Format(time.RFC3339), nil
}

func sameBoot(a, b string) bool {
	s, errA := time.Parse(time.RFC3339, a)
	t, errB := time.Parse(time.RFC3339, b)
	return errA == nil && errB == nil && s.Sub(t).Abs() <= bootDrift
}
