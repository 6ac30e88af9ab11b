// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"golang.org/x/sys/windows"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// The whole receiver, from the factory to the consumer, on the SIMULATED HNS of
// test/winhns.
func TestReceiver(t *testing.T) {
	if windows.NewLazySystemDLL("vmcompute.dll").NewProc("SimulatedHNS").Find() != nil {
		t.Skip("needs the simulated HNS: test/winhns/setup.sh, and go test -exec test/winhns/wine.sh")
	}
	d := simhns.New(t)
	t.Setenv("SIMHNS_DIR", d.Path)
	e := d.PutNumbered(1)

	sink := &consumertest.MetricsSink{}
	cfg := createDefaultConfig().(*Config)
	cfg.InitialDelay = 0
	r, err := NewFactory().CreateMetrics(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	require.Eventually(t, func() bool { return sink.DataPointCount() > 0 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()), "twice")

	rm := sink.AllMetrics()[0].ResourceMetrics().At(0)
	require.Equal(t, map[string]any{
		"k8s.pod.ip": e.Addresses[0], "hns.endpoint.id": e.ID, "hns.namespace.id": e.Namespace, "container.id": e.Containers[0],
	}, rm.Resource().Attributes().AsRaw())
	points := map[string]int{}
	for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
		points[m.Name()] = m.Sum().DataPoints().Len()
	}
	require.Equal(t, map[string]int{
		"k8s.pod.network.io": 2, "k8s.pod.network.packet.count": 2, "k8s.pod.network.packet.dropped": 4,
		"k8s.pod.network.tcp.packet.count": 8, "k8s.pod.network.tcp.connection.events": 7,
	}, points)
}
