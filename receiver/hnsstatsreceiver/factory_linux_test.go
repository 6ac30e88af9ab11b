// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

// The whole receiver, from the factory to the consumer, on a live pod.
func TestReceiver(t *testing.T) {
	node := netnstest.NewNode(t)
	pod := node.Pod().Veth("va", "eth0", "10.1.0.2/24", "fd01::2/64")

	sink := &consumertest.MetricsSink{}
	cfg := createDefaultConfig().(*Config)
	cfg.InitialDelay = 0
	r, err := NewFactory().CreateMetrics(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	netnstest.Eventually(t, "a scrape", func() bool { return sink.DataPointCount() > 0 })
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()), "twice")

	md := sink.AllMetrics()[0]
	require.Equal(t, 1, md.ResourceMetrics().Len())
	rm := md.ResourceMetrics().At(0)
	require.Equal(t, map[string]any{"k8s.pod.ip": "10.1.0.2", "linux.netns.inode": int64(pod.Inode())}, rm.Resource().Attributes().AsRaw())
	seen := map[string]bool{}
	for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
		for _, p := range m.Sum().DataPoints().All() {
			name, _ := p.Attributes().Get("network.interface.name")
			require.Equal(t, "eth0", name.Str())
			direction, _ := p.Attributes().Get("network.io.direction")
			seen[fmt.Sprintf("%s %s", m.Name(), direction.Str())] = true
		}
	}
	require.Len(t, seen, 8)
}
