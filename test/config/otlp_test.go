// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // what the exporter sends
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// point is one data point, comparable.
type point struct {
	metric, namespace, pod, direction string
	value                             int64
	at                                time.Time
}

func points(metrics pmetric.Metrics) (all []point) {
	for _, rm := range metrics.ResourceMetrics().All() {
		text := func(m pcommon.Map, key string) string {
			if v, ok := m.Get(key); ok {
				return v.AsString()
			}
			return ""
		}
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for _, dp := range m.Sum().DataPoints().All() {
					all = append(all, point{
						m.Name(), text(rm.Resource().Attributes(), "k8s.namespace.name"), text(rm.Resource().Attributes(), "k8s.pod.name"),
						text(dp.Attributes(), "network.io.direction") + text(dp.Attributes(), "reason"), dp.IntValue(), dp.Timestamp().AsTime(),
					})
				}
			}
		}
	}
	return all
}

// backend is an OTLP back end, over gRPC and HTTP, that can be away.
type backend struct {
	pmetricotlp.UnimplementedGRPCServer

	mu      sync.Mutex
	away    bool
	refused int
	got     map[point]bool
	metrics []pmetric.Metrics
	logs    []plog.Logs
}

func (b *backend) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *backend) timesRefused() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// take notes metrics; false if it is away.
func (b *backend) take(metrics pmetric.Metrics) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		b.refused++
		return false
	}
	if b.got == nil {
		b.got = map[point]bool{}
	}
	for _, p := range points(metrics) {
		b.got[p] = true
	}
	b.metrics = append(b.metrics, metrics)
	return true
}

// takeLogs notes logs; false if it is away.
func (b *backend) takeLogs(logs plog.Logs) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return false
	}
	b.logs = append(b.logs, logs)
	return true
}

func (b *backend) Export(_ context.Context, request pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	if !b.take(request.Metrics()) {
		return pmetricotlp.NewExportResponse(), status.Error(codes.Unavailable, "away")
	}
	return pmetricotlp.NewExportResponse(), nil
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		body, err = gunzip(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch metrics, logs := pmetricotlp.NewExportRequest(), plogotlp.NewExportRequest(); {
	case r.URL.Path == "/v1/logs":
		if err = logs.UnmarshalProto(body); err == nil && !b.takeLogs(logs.Logs()) {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
	default:
		if err = metrics.UnmarshalProto(body); err == nil && !b.take(metrics.Metrics()) {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// all calls f with what has come.
func (b *backend) all(f func(got map[point]bool) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f(b.got)
}

// awaitAll waits until all points are there.
func (b *backend) awaitAll(t *testing.T, want []point) {
	t.Helper()
	testkit.Eventually(t, patience, "every point", func() error {
		return b.all(func(got map[point]bool) error {
			for i, p := range want {
				if !got[p] {
					return fmt.Errorf("point %d of %d is missing: %v", i, len(want), p)
				}
			}
			return nil
		})
	})
}

// awaitRefusals waits until an outage has gone on for some collections, by the
// witness's file.
func (b *backend) awaitRefusals(t *testing.T, path string) {
	t.Helper()
	refused, count := b.timesRefused(), len(witnessed(t, path))
	testkit.Eventually(t, patience, "points that the back end refuses", func() error {
		if now := len(witnessed(t, path)); now < count+60 || b.timesRefused() < refused+2 {
			return fmt.Errorf("%d points more, refused %d times", now-count, b.timesRefused()-refused)
		}
		return nil
	})
}

// awaitPods waits until the bytes that web-0 sent are there.
func (b *backend) awaitPods(t *testing.T, n *node) {
	t.Helper()
	n.fetch(t)
	sent := n.sent(t, pods[0])
	testkit.Eventually(t, patience, "the pods' counters", func() error {
		return b.all(func(got map[point]bool) error {
			for p := range got {
				if p.metric == "k8s.pod.network.io" && p.pod == "web-0" && p.namespace == namespace && p.direction == "transmit" && float64(p.value) >= sent {
					return nil
				}
			}
			return fmt.Errorf("%d points, none of web-0 with %v bytes", len(got), sent)
		})
	})
}

// witness is a second exporter, which writes every point of the pipeline into a
// file, so that what a back end got can be held against what there was.
func witness(t *testing.T) (path, overlay string) {
	path = filepath.Join(t.TempDir(), "witness.json")
	return path, "exporters: {file: {path: " + path + ", append: true, flush_interval: 50ms}}"
}

func witnessed(t *testing.T, path string) (all []point) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(b) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // cut off by the kill
		}
		metrics, err := new(pmetric.JSONUnmarshaler).UnmarshalMetrics(line)
		require.NoError(t, err)
		all = append(all, points(metrics)...)
	}
	return all
}

// outlastsOutage: the back end goes away, the collector is killed meanwhile and
// started again, the back end comes back. All points must be there then.
func outlastsOutage(t *testing.T, n *node, b *backend, env map[string]string, exporter string, configs ...string) {
	t.Helper()
	path, file := witness(t)
	env["STATE_DIRECTORY"] = t.TempDir()
	configs = append(configs, n.overlay(), "{"+file+", service: {pipelines: {metrics: {exporters: [file, "+exporter+"]}}}}",
		"{exporters: {"+exporter+": {retry_on_failure: {initial_interval: 200ms, max_interval: 1s}}}}")
	c := n.start(t, env, configs...)
	b.awaitPods(t, n)

	b.setAway(true)
	b.awaitRefusals(t, path)
	before := witnessed(t, path)
	c.kill()
	n.start(t, env, configs...)
	b.setAway(false)
	b.awaitPods(t, n)
	b.awaitAll(t, before)
	t.Logf("all %d points of before the kill arrived", len(before))
}

func TestOTLP(t *testing.T) {
	n := newNode(t)
	b := &backend{}
	n.serveGRPC(t, b)
	outlastsOutage(t, n, b, map[string]string{"OTLP_ENDPOINT": "127.0.0.1:4317", "OTLP_INSECURE": "true"}, "otlp_grpc", ready+"otlp.yaml")
}

// serveGRPC serves OTLP in the node, where a collector's gRPC endpoint usually is.
func (n *node) serveGRPC(t *testing.T, b *backend) {
	t.Helper()
	server := grpc.NewServer()
	pmetricotlp.RegisterGRPCServer(server, b)
	listener := listenIn(t, n.name, "127.0.0.1:4317")
	go func() { _ = server.Serve(listener) }() // until Stop
	t.Cleanup(server.Stop)
}
