// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestMemory compares the collector at 250 pods with the same build that runs
// only the Prometheus exporter, which shows the same series: they were pushed to
// it once.
//
// What counts is the anonymous part of RSS: what the node gives and cannot take
// back. It includes garbage, up to as much again as the live heap (GOGC). The rest
// of RSS is pages of the binary's file, which the kernel maps by neighbourhood
// rather than by use and drops at will. All of it, and the live heap after a
// collection, is logged.
func TestMemory(t *testing.T) {
	const limit = 15 << 20
	b := newBed(t, "1.6")
	prometheus := b.startPrometheus(t)
	pods := b.runAll(t, specs(250, "p", "memory", "")...)
	config, err := filepath.Abs(defaultConfig)
	require.NoError(t, err)
	const extensions = `
extensions:
  health_check: {endpoint: "127.0.0.1:13133"}
  pprof: {endpoint: "127.0.0.1:1777"}
`

	file := filepath.Join(t.TempDir(), "points.json")
	recorder := b.startCollector(t, config, extensions+`
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service:
  extensions: [podidentity, health_check, pprof]
  pipelines: {metrics: {exporters: [file]}}
`)
	recorded := &sink{path: file}
	b.awaitNames(t, recorded, pods)
	recorder.stop(t)

	baseline := b.startCollector(t, extensions+`
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}}
exporters:
  prometheus:
    endpoint: localhost:8889
    resource_constant_labels: {included: ["*"]}
    without_scope_info: true
    metric_expiration: 1h
service:
  extensions: [health_check, pprof]
  pipelines: {metrics: {receivers: [otlp], exporters: [prometheus]}}
`)
	empty := baseline.settledMemory(t, 10)
	b.push(t, testkit.LastLines(string(mustRead(t, file)), 1))
	prometheus.awaitPods(t, len(pods))
	alone := baseline.settledMemory(t, 30)
	baseline.stop(t)

	collector := b.startCollector(t, config, extensions+`
receivers: {hnsstats: {collection_interval: 1s}}
service: {extensions: [podidentity, health_check, pprof]}
`)
	prometheus.awaitScrape(t, time.Now())
	prometheus.awaitPods(t, len(pods))
	whole := collector.settledMemory(t, 30)
	t.Logf("only the Prometheus exporter, without any series: %v", empty)
	t.Logf("only the Prometheus exporter: %v", alone)
	t.Logf("the default pipeline: %v", whole)
	t.Logf("difference: %v", memory{whole.anonymous - alone.anonymous, whole.rss - alone.rss, whole.heap - alone.heap})
	require.LessOrEqual(t, whole.anonymous-alone.anonymous, limit)
}

// push sends one line of the file exporter to the OTLP receiver.
func (b *bed) push(t *testing.T, line string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:4318/v1/metrics", strings.NewReader(line))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := b.httpClient().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
}

// awaitPods waits until Prometheus has the series of so many pods.
func (p *prometheus) awaitPods(t *testing.T, n int) {
	t.Helper()
	testkit.Eventually(t, patience, "Prometheus has all pods", func() error {
		got := p.Query(t, `count(count by (k8s_pod_uid) (k8s_pod_network_io_bytes_total{k8s_pod_name!=""}))`)
		if len(got) == 0 || int(got[0].Values[0].Value) != n {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

type memory struct{ anonymous, rss, heap int }

func (m memory) String() string {
	mb := func(bytes int) float64 { return float64(bytes) / (1 << 20) }
	return fmt.Sprintf("anonymous memory %.1f MB, RSS %.1f MB, live heap %.1f MB", mb(m.anonymous), mb(m.rss), mb(m.heap))
}

// settledMemory returns the medians over so many scrapes once a second, the pace
// of Prometheus and of the receiver here, and then the live heap.
func (c *collector) settledMemory(t *testing.T, scrapes int) memory {
	t.Helper()
	var anonymous, rss []int
	for range scrapes {
		anonymous, rss = append(anonymous, c.memory(t, "RssAnon")), append(rss, c.memory(t, "VmRSS"))
		time.Sleep(time.Second) // a measurement over time, not a wait for an event
	}
	slices.Sort(anonymous)
	slices.Sort(rss)
	return memory{anonymous: anonymous[len(anonymous)/2], rss: rss[len(rss)/2], heap: c.heap(t)}
}
