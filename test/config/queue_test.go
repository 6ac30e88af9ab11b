// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestQueueLimit: in a long outage the queue on disk takes so many bytes and no
// more, over a restart too. What waits in it is the oldest, and arrives.
func TestQueueLimit(t *testing.T) {
	n := newNode(t)
	n.ownMetrics = true
	b := &backend{away: true}
	n.serveGRPC(t, b)
	path, file := witness(t)
	env := map[string]string{"OTLP_ENDPOINT": "127.0.0.1:4317", "OTLP_INSECURE": "true", "STATE_DIRECTORY": t.TempDir()}
	const limit = 50_000
	configs := []string{ready + "otlp.yaml", n.overlay(), "{" + file + ", service: {pipelines: {metrics: {exporters: [file, otlp_grpc]}}}}",
		fmt.Sprintf("{exporters: {otlp_grpc: {sending_queue: {queue_size: %d}, retry_on_failure: {initial_interval: 200ms, max_interval: 1s}}}}", limit)}
	awaitFull := func(c *collector) {
		t.Helper()
		testkit.Eventually(t, patience, "a full queue", func() error {
			if size := n.ownMetric(t, "otelcol_exporter_queue_size"); size > limit {
				t.Fatalf("%d bytes in the queue", size)
			}
			if !strings.Contains(c.readLog(), "sending queue is full") {
				return fmt.Errorf("not said:\n%s", testkit.LastLines(c.readLog(), 5))
			}
			return nil
		})
	}
	c := n.start(t, env, configs...)
	awaitFull(c)
	before := witnessed(t, path)
	require.Greater(t, len(before), 3*len(pods)*8, "it held some collections")
	c.kill()
	c = n.start(t, env, configs...)
	awaitFull(c)
	b.setAway(false)
	b.awaitAll(t, before[:2*len(pods)*8])
	testkit.Eventually(t, patience, "an empty queue", func() error {
		if size := n.ownMetric(t, "otelcol_exporter_queue_size"); size != 0 {
			return fmt.Errorf("%d bytes", size)
		}
		return nil
	})
}

// ownMetric is a value on the page of the collector's own metrics that stands there
// once.
func (n *node) ownMetric(t *testing.T, name string) int64 {
	t.Helper()
	page, err := n.get("http://127.0.0.1:8888/metrics")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^`+name+`\{.*\} (.+)$`).FindAllStringSubmatch(page, -1)
	require.Len(t, found, 1, page)
	value, err := strconv.ParseFloat(found[0][1], 64)
	require.NoError(t, err)
	return int64(value)
}

// TestQueueFileShrinks: after an outage the queue's file gives the disk back.
func TestQueueFileShrinks(t *testing.T) {
	n := newNode(t)
	b := &backend{away: true}
	n.serveGRPC(t, b)
	dir := t.TempDir()
	n.start(t, map[string]string{"OTLP_ENDPOINT": "127.0.0.1:4317", "OTLP_INSECURE": "true", "STATE_DIRECTORY": dir}, ready+"otlp.yaml", n.overlay(),
		"{exporters: {otlp_grpc: {retry_on_failure: {initial_interval: 200ms, max_interval: 1s}}}}",
		// A few MiB where a user's outage leaves hundreds.
		"{extensions: {file_storage: {compaction: {rebound_needed_threshold_mib: 1, rebound_trigger_threshold_mib: 1, check_interval: 200ms}}}}",
		"{receivers: {otlp: {protocols: {http: {endpoint: 127.0.0.1:4318}}}}, service: {pipelines: {metrics: {receivers: [hnsstats, otlp]}}}}")
	metrics := pmetric.NewMetrics()
	rm := metrics.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("k8s.pod.name", "large")
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("large")
	m.SetDescription(strings.Repeat("x", 3<<20))
	m.SetEmptySum().DataPoints().AppendEmpty()
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, n.post(t, "http://127.0.0.1:4318/v1/metrics", body))
	used := func() (sum int64) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if info, err := d.Info(); err == nil && d.Type().IsRegular() {
				sum += info.Size()
			}
			return nil
		}))
		return sum
	}
	require.Greater(t, used(), int64(3<<20))
	b.setAway(false)
	testkit.Eventually(t, patience, "a small file", func() error {
		if size := used(); size > 1<<20 {
			return fmt.Errorf("%d bytes", size)
		}
		return nil
	})
}
