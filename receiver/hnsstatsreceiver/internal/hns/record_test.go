// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// An event that is -1 in one direction has no sum.
func TestVFPEventThatIsUnknown(t *testing.T) {
	var c portCounters
	for e := range endpoint.TimeWaitExpired + 1 {
		n := firstEvent + counter(e)
		c.has[n] = true
		c.value[endpoint.Receive][n], c.value[endpoint.Transmit][n] = 3, 4
	}
	c.value[endpoint.Transmit][firstEvent+counter(endpoint.Reset)] = math.MaxUint64
	var r record
	r.countVFP(&c)
	require.False(t, r.counters.TCP.HasEvent[endpoint.Reset])
	require.True(t, r.counters.TCP.HasEvent[endpoint.Verified])
	require.EqualValues(t, 7, r.counters.TCP.Events[endpoint.Verified])
}
