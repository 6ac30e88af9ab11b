// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/exporter/applicationinsightsexporter/internal/metadata"
)

// whole is the exporter as a Collector runs it, with its counters and its log. It
// has no queue, so that what becomes of the metrics is known when they are consumed.
type whole struct {
	exporter.Metrics
	id        string
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
}

func startWhole(t *testing.T, s *service) *whole {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.ConnectionString = "InstrumentationKey=" + key + ";IngestionEndpoint=" + configopaque.String(s.URL) + "/"
	cfg.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
	cfg.RetryConfig.InitialInterval = time.Millisecond
	telemetry := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, telemetry.Shutdown(context.Background())) })
	set := exportertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	core, logs := observer.New(zap.InfoLevel)
	set.Logger = zap.New(core)
	e, err := NewFactory().CreateMetrics(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.Background())) })
	return &whole{e, set.ID.String(), telemetry, logs}
}

// count adds up a counter by its attribute "reason", "" for those without one.
func (w *whole) count(t *testing.T, name string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	m, err := w.telemetry.GetMetric(name)
	if err != nil {
		return counts // not counted yet
	}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		value, _ := p.Attributes.Value("exporter")
		require.Equal(t, w.id, value.AsString())
		value, _ = p.Attributes.Value("reason")
		if p.Value > 0 {
			counts[value.AsString()] += p.Value
		}
	}
	return counts
}

// warnings are what the log says of refused points, "<metric>: <error>".
func (w *whole) warnings() (lines []string) {
	for _, entry := range w.logs.FilterLevelExact(zap.WarnLevel).All() {
		fields := entry.ContextMap()
		lines = append(lines, fmt.Sprintf("%v: %v", fields["metric"], fields["error"]))
	}
	return lines
}

// gauge appends a metric of one point.
func gauge(metrics pmetric.Metrics, name string, value float64) {
	m := metrics.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().AppendEmpty()
	m.SetName(name)
	m.SetEmptyGauge().DataPoints().AppendEmpty().SetDoubleValue(value)
}

// histogram appends a metric of one point that can't be sent.
func histogram(metrics pmetric.Metrics, name string) {
	m := metrics.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().AppendEmpty()
	m.SetName(name)
	m.SetEmptyHistogram().DataPoints().AppendEmpty()
}

// answer is one of the service's, with its status.
type answer struct {
	status int
	body   string
}

// TestPointsGivenUp: the Collector's counters and log say what became of what
// could be sent, and the exporter's own what became of the others.
func TestPointsGivenUp(t *testing.T) {
	nan := func() pmetric.Metrics {
		metrics := deltas()
		gauge(metrics, "ratio", math.NaN())
		return metrics
	}
	const (
		sent    = "otelcol_exporter_sent_metric_points"
		failed  = "otelcol_exporter_send_failed_metric_points"
		refused = "otelcol_exporter_applicationinsights_refused_points"
	)
	for _, tc := range []struct {
		name         string
		metrics      func() pmetric.Metrics
		answers      []answer // 200 after them
		sent, failed int64
		refused      map[string]int64
		warnings     []string
	}{
		{name: "all is sent", metrics: deltas, sent: 4},
		{
			name: "metrics without points", sent: 4,
			metrics: func() pmetric.Metrics {
				metrics := deltas()
				more := metrics.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
				more.AppendEmpty().SetName("no type")
				more.AppendEmpty().SetEmptyHistogram()
				return metrics
			},
		},
		{
			name: "one value that can't be sent", metrics: nan, sent: 5,
			refused: map[string]int64{"not_finite": 1}, warnings: []string{"ratio: its value is NaN, which can't be sent"},
		},
		{
			name: "a histogram and a cumulative sum", sent: 6,
			metrics: func() pmetric.Metrics {
				metrics := deltas()
				histogram(metrics, "latency")
				histogram(metrics, "size")
				m := metrics.ResourceMetrics().At(1).ScopeMetrics().At(0).Metrics().At(0)
				m.SetName("requests")
				m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
				return metrics
			},
			refused: map[string]int64{"unsupported_type": 2, "cumulative_sum": 2},
			warnings: []string{
				"latency: is a Histogram: only sums and gauges can be sent",
				"size: is a Histogram: only sums and gauges can be sent",
				"requests: " + errCumulative.Error(),
			},
		},
		{
			name: "nothing can be sent", failed: 1,
			metrics: func() pmetric.Metrics {
				metrics := pmetric.NewMetrics()
				metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty()
				histogram(metrics, "latency")
				return metrics
			},
		},
		{
			name: "what can't be sent is counted once, however often the others are tried", metrics: nan, sent: 5,
			answers: []answer{{503, "busy"}, {503, "busy"}},
			refused: map[string]int64{"not_finite": 1}, warnings: []string{"ratio: its value is NaN, which can't be sent"},
		},
		{
			name: "or only a part of the others", metrics: nan, sent: 5,
			answers: []answer{{206, `{"itemsReceived":4,"itemsAccepted":3,"errors":[{"index":1,"statusCode":503}]}`}},
			refused: map[string]int64{"not_finite": 1}, warnings: []string{"ratio: its value is NaN, which can't be sent"},
		},
		{name: "all is refused for good", metrics: nan, answers: []answer{{400, "bad"}}, failed: 5},
		{
			name: "a part is refused for good, another is sent again", metrics: deltas, sent: 4,
			answers: []answer{{206, `{"itemsReceived":4,"itemsAccepted":2,"errors":[{"index":2,"statusCode":400,"message":"bad\n"},{"index":1,"statusCode":503}]}`}},
			refused: map[string]int64{"service": 1}, warnings: []string{"k8s.pod.network.io: 400 bad"},
		},
		{
			name: "a part is refused for good", metrics: deltas, sent: 4,
			answers: []answer{{206, `{"itemsReceived":4,"itemsAccepted":2,"errors":[{"index":2,"statusCode":400,"message":"bad"},{"index":3,"statusCode":402,"message":"worse"}]}`}},
			refused: map[string]int64{"service": 2}, warnings: []string{"k8s.pod.network.io: 400 bad"},
		},
		{
			name: "the service doesn't say what became of a part", metrics: deltas, sent: 4,
			answers:  []answer{{206, `{"itemsReceived":4,"itemsAccepted":1}`}},
			refused:  map[string]int64{"unknown": 3},
			warnings: []string{": the service took 1 of 4 points, and doesn't say what became of 3"},
		},
		{
			name: "the service names points that were not sent", metrics: deltas, sent: 4,
			answers:  []answer{{206, `{"itemsReceived":4,"itemsAccepted":2,"errors":[{"index":4,"statusCode":429},{"index":-1,"statusCode":400}]}`}},
			refused:  map[string]int64{"unknown": 2},
			warnings: []string{": the service took 2 of 4 points, and doesn't say what became of 2"},
		},
		{
			name: "nor of some beside those to send again", metrics: deltas, sent: 4,
			answers:  []answer{{206, `{"itemsReceived":4,"itemsAccepted":1,"errors":[{"index":1,"statusCode":429},{"index":0,"statusCode":400,"message":"bad"}]}`}},
			refused:  map[string]int64{"service": 1, "unknown": 1},
			warnings: []string{"k8s.pod.network.io: 400 bad", ": the service took 1 of 4 points, and doesn't say what became of 1"},
		},
		{
			name: "nothing is taken, each point by itself", metrics: deltas, failed: 4,
			answers: []answer{{206, `{"itemsReceived":4,"itemsAccepted":0,"errors":[{"index":0,"statusCode":400},{"index":1,"statusCode":400},{"index":2,"statusCode":400},{"index":3,"statusCode":400}]}`}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t)
			s.next = tc.answers
			w := startWhole(t, s)
			err := w.ConsumeMetrics(t.Context(), tc.metrics())
			counts := func(n int64) map[string]int64 {
				if n == 0 {
					return map[string]int64{}
				}
				return map[string]int64{"": n}
			}
			require.Equal(t, tc.failed > 0, err != nil, "%v", err)
			require.Equal(t, counts(tc.sent), w.count(t, sent))
			require.Equal(t, counts(tc.failed), w.count(t, failed))
			if tc.refused == nil {
				tc.refused = map[string]int64{}
			}
			require.Equal(t, tc.refused, w.count(t, refused))
			require.Equal(t, tc.warnings, w.warnings())
			if tc.failed == 0 {
				require.Empty(t, w.logs.FilterLevelExact(zap.ErrorLevel).All())
			}
		})
	}
}

// TestRefusedPointsInTheLog: a line for each metric, and not for each request; no
// more than so many, however many metrics there are.
func TestRefusedPointsInTheLog(t *testing.T) {
	w := startWhole(t, newService(t))
	metrics := deltas()
	for i := range maxWarnings - 1 {
		histogram(metrics, fmt.Sprint("metric-", i))
	}
	gauge(metrics, "metric-0", math.Inf(1))
	for range 3 {
		require.NoError(t, w.ConsumeMetrics(t.Context(), metrics))
		require.Len(t, w.warnings(), maxWarnings)
	}
	histogram(metrics, "one more")
	require.NoError(t, w.ConsumeMetrics(t.Context(), metrics))
	require.Len(t, w.warnings(), maxWarnings)
	require.Equal(t, map[string]int64{"unsupported_type": 4*maxWarnings - 3, "not_finite": 4}, w.count(t, "otelcol_exporter_applicationinsights_refused_points"))
}
