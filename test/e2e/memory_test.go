// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMemory compares the collector at 250 pods with the same build that runs
// only the Prometheus exporter.
//
// What counts is the anonymous part of RSS: what the node gives and cannot take
// back. It includes garbage (up to as much again as the live heap, by GOGC) and
// the Prometheus exporter's own state for 250 pods. The rest of RSS is pages of
// the binary's file, which the kernel maps by neighbourhood rather than by use and
// drops at will. All of it, and the live heap after a collection, is logged.
func TestMemory(t *testing.T) {
	const limit = 15 << 20
	b := newBed(t, "1.6")
	prometheus := b.startPrometheus(t)

	baseline := b.startCollector(t, `
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:4317"}}}
exporters:
  prometheus: {endpoint: "localhost:8889"}
extensions:
  health_check: {endpoint: "127.0.0.1:13133"}
  pprof: {endpoint: "127.0.0.1:1777"}
service:
  extensions: [health_check, pprof]
  pipelines:
    metrics: {receivers: [otlp], exporters: [prometheus]}
`)
	idle := baseline.settledMemory(t)
	baseline.stop(t)

	pods := b.runAll(t, specs(250, "p", "memory", "")...)
	config, err := filepath.Abs(defaultConfig)
	require.NoError(t, err)
	collector := b.startCollector(t, config, `
receivers:
  hnsstats: {collection_interval: 1s}
extensions:
  health_check: {endpoint: "127.0.0.1:13133"}
  pprof: {endpoint: "127.0.0.1:1777"}
service:
  extensions: [podidentity, health_check, pprof]
`)
	eventually(t, patience, "Prometheus has all pods", func() error {
		got := prometheus.query(t, `count(count by (k8s_pod_uid) (k8s_pod_network_io_bytes_total{k8s_pod_name!=""}))`)
		if len(got) == 0 || int(got[0].values[0].value) != len(pods) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	busy := collector.settledMemory(t)
	t.Logf("only the Prometheus exporter: %v", idle)
	t.Logf("the default pipeline at %d pods: %v", len(pods), busy)
	t.Logf("difference: %v", memory{busy.anonymous - idle.anonymous, busy.rss - idle.rss, busy.heap - idle.heap})
	require.LessOrEqual(t, busy.anonymous-idle.anonymous, limit)
}

type memory struct{ anonymous, rss, heap int }

func (m memory) String() string {
	mb := func(bytes int) float64 { return float64(bytes) / (1 << 20) }
	return fmt.Sprintf("anonymous memory %.1f MB, RSS %.1f MB, live heap %.1f MB", mb(m.anonymous), mb(m.rss), mb(m.heap))
}

// settledMemory returns the medians over 30 s of scrapes once a second, the pace
// of Prometheus and of the receiver here, and then the live heap.
func (c *collector) settledMemory(t *testing.T) memory {
	t.Helper()
	var anonymous, rss []int
	for range 30 {
		anonymous, rss = append(anonymous, c.memory(t, "RssAnon")), append(rss, c.memory(t, "VmRSS"))
		time.Sleep(time.Second) // a measurement over time, not a wait for an event
	}
	slices.Sort(anonymous)
	slices.Sort(rss)
	return memory{anonymous: anonymous[len(anonymous)/2], rss: rss[len(rss)/2], heap: c.heap(t)}
}
