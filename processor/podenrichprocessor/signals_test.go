// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"flag"
	"path/filepath"
	"sync"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/plogtest"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/metadatatest"
)

var update = flag.Bool("update", false, "write the golden files from what the processor does")

// goldenConfig is what a flow pipeline has.
func goldenConfig() *Config {
	return newConfig(func(c *Config) {
		c.Labels = []string{"app"}
		c.Peers = []PeerConfig{{Address: "source.address", Prefix: "source."}, {Address: "destination.address", Prefix: "destination."}}
	})
}

// goldenNode is the node of the tests at the time of the golden files.
func goldenNode() *fakeIdentities {
	leases := node()
	shift := goldenEpoch.Sub(epoch)
	for i := range leases {
		leases[i].Begin = leases[i].Begin.Add(shift)
		if !leases[i].end.IsZero() {
			leases[i].end = leases[i].end.Add(shift)
		}
	}
	return newFake(leases...)
}

func plainAttributes(signal string, more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(more, attribute.String("processor", "podenrich"), attribute.String("otel.signal", signal))...)
}

// assertCounts checks the processor's own metrics for the golden files, which
// are alike for every signal: a resource that is found, with an item that has
// two known peers and one from before the address changed hands, and a
// resource that is not.
func assertCounts(t *testing.T, telemetry *componenttest.Telemetry, signal string) {
	t.Helper()
	counts := func(byOutcome map[string]int64) (dps []metricdata.DataPoint[int64]) {
		for o, n := range byOutcome {
			dps = append(dps, metricdata.DataPoint[int64]{Value: n, Attributes: plainAttributes(signal, attribute.String("outcome", o))})
		}
		return dps
	}
	metadatatest.AssertEqualProcessorPodenrichResources(t, telemetry, counts(map[string]int64{"found": 1, "unknown": 1}), metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorPodenrichItems(t, telemetry, counts(map[string]int64{"found": 2, "unknown": 1}), metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorPodenrichPeers(t, telemetry, counts(map[string]int64{"found": 3, "unusable_key": 1}), metricdatatest.IgnoreTimestamp())
}

func TestGoldenMetrics(t *testing.T) {
	in, err := golden.ReadMetrics(filepath.Join("testdata", "metrics.yaml"))
	require.NoError(t, err)
	telemetry := componenttest.NewTelemetry()
	var sink consumertest.MetricsSink
	p, err := NewFactory().CreateMetrics(t.Context(), metadatatest.NewSettings(telemetry), goldenConfig(), &sink)
	require.NoError(t, err)
	require.True(t, p.Capabilities().MutatesData)
	require.NoError(t, p.Start(t.Context(), host{identityID: goldenNode()}))
	require.NoError(t, p.ConsumeMetrics(t.Context(), in))
	require.NoError(t, p.Shutdown(t.Context()))

	want := filepath.Join("testdata", "metrics_expected.yaml")
	if *update {
		require.NoError(t, golden.WriteMetrics(t, want, sink.AllMetrics()[0], golden.SkipMetricTimestampNormalization()))
	}
	expected, err := golden.ReadMetrics(want)
	require.NoError(t, err)
	require.NoError(t, pmetrictest.CompareMetrics(expected, sink.AllMetrics()[0],
		pmetrictest.IgnoreResourceMetricsOrder(), pmetrictest.IgnoreMetricDataPointsOrder()))
	assertCounts(t, telemetry, "metrics")
}

func TestGoldenLogs(t *testing.T) {
	in, err := golden.ReadLogs(filepath.Join("testdata", "logs.yaml"))
	require.NoError(t, err)
	telemetry := componenttest.NewTelemetry()
	var sink consumertest.LogsSink
	p, err := NewFactory().CreateLogs(t.Context(), metadatatest.NewSettings(telemetry), goldenConfig(), &sink)
	require.NoError(t, err)
	require.True(t, p.Capabilities().MutatesData)
	require.NoError(t, p.Start(t.Context(), host{identityID: goldenNode()}))
	require.NoError(t, p.ConsumeLogs(t.Context(), in))
	require.NoError(t, p.Shutdown(t.Context()))

	want := filepath.Join("testdata", "logs_expected.yaml")
	if *update {
		require.NoError(t, golden.WriteLogs(t, want, sink.AllLogs()[0]))
	}
	expected, err := golden.ReadLogs(want)
	require.NoError(t, err)
	require.NoError(t, plogtest.CompareLogs(expected, sink.AllLogs()[0]))
	assertCounts(t, telemetry, "logs")
}

func TestGoldenTraces(t *testing.T) {
	in, err := golden.ReadTraces(filepath.Join("testdata", "traces.yaml"))
	require.NoError(t, err)
	telemetry := componenttest.NewTelemetry()
	var sink consumertest.TracesSink
	p, err := NewFactory().CreateTraces(t.Context(), metadatatest.NewSettings(telemetry), goldenConfig(), &sink)
	require.NoError(t, err)
	require.True(t, p.Capabilities().MutatesData)
	require.NoError(t, p.Start(t.Context(), host{identityID: goldenNode()}))
	require.NoError(t, p.ConsumeTraces(t.Context(), in))
	require.NoError(t, p.Shutdown(t.Context()))

	want := filepath.Join("testdata", "traces_expected.yaml")
	if *update {
		require.NoError(t, golden.WriteTraces(t, want, sink.AllTraces()[0]))
	}
	expected, err := golden.ReadTraces(want)
	require.NoError(t, err)
	require.NoError(t, ptracetest.CompareTraces(expected, sink.AllTraces()[0]))
	assertCounts(t, telemetry, "traces")
}

// Logs and traces are dropped, held and counted as metrics are.
func TestLogsAndTracesWhileUnready(t *testing.T) {
	logs, err := golden.ReadLogs(filepath.Join("testdata", "logs.yaml"))
	require.NoError(t, err)
	traces, err := golden.ReadTraces(filepath.Join("testdata", "traces.yaml"))
	require.NoError(t, err)
	f := unreadyFake()
	telemetry := componenttest.NewTelemetry()
	var logSink consumertest.LogsSink
	var traceSink consumertest.TracesSink
	l, err := NewFactory().CreateLogs(t.Context(), metadatatest.NewSettings(telemetry), onUnready(UnreadyDrop), &logSink)
	require.NoError(t, err)
	tr, err := NewFactory().CreateTraces(t.Context(), metadatatest.NewSettings(telemetry), onUnready(UnreadyDrop), &traceSink)
	require.NoError(t, err)
	require.NoError(t, l.Start(t.Context(), host{identityID: f}))
	require.NoError(t, tr.Start(t.Context(), host{identityID: f}))
	require.NoError(t, l.ConsumeLogs(t.Context(), logs))
	require.NoError(t, tr.ConsumeTraces(t.Context(), traces))
	assert.Zero(t, logSink.LogRecordCount()+traceSink.SpanCount())
	metadatatest.AssertEqualProcessorPodenrichDroppedItems(t, telemetry, []metricdata.DataPoint[int64]{
		{Value: 3, Attributes: plainAttributes("logs")}, {Value: 3, Attributes: plainAttributes("traces")},
	}, metricdatatest.IgnoreTimestamp())
	require.NoError(t, l.Shutdown(t.Context()))
	require.NoError(t, tr.Shutdown(t.Context()))
}

// Many senders share one processor; the race detector watches.
func TestConcurrentBatches(t *testing.T) {
	b := newBed(t, goldenConfig(), newFake(node()...))
	const senders, batches = 8, 50
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range batches {
				assert.NoError(t, b.ConsumeMetrics(context.Background(), oneResource(t, attrs{"k8s.pod.ip": "10.9.0.5"}, epoch)))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, map[string]int64{"found": senders * batches}, b.outcomes(t, "resources"))
}

func TestShutdownTwiceAndWithoutStart(t *testing.T) {
	m, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), newConfig(nil), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, m.Shutdown(t.Context()))
	require.NoError(t, m.Shutdown(t.Context()))
}
