// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestGateway: a node that names its own pods sends to a gateway, which knows the
// cluster's: here from a file; test/k8s has it from a real API server.
func TestGateway(t *testing.T) {
	n := newNode(t)
	b := n.serveHTTP(t)
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(cluster, []byte("pods: [{name: far-0, namespace: bank, addresses: [10.216.0.10]}, {name: web-0, namespace: shop, addresses: [10.214.0.10]}]"), 0o644))
	n.startGateway(t, "{extensions: {podidentity: {sources: {statefile/cluster: {path: "+cluster+", format: list}}}}}")
	n.startGatewaysNode(t)
	_, err := n.get("http://127.0.0.1:13134/")
	require.NoError(t, err, "the kubelet's probe")
	b.awaitPods(t, n)

	// A flow's log record, as an application or an eBPF agent of the node sends it.
	logs := plog.NewLogs()
	record := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	record.Attributes().PutStr("source.address", "10.214.0.10")
	record.Attributes().PutStr("destination.address", "10.216.0.10")
	body, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, n.post(t, "http://127.0.0.1:4318/v1/logs", body))
	testkit.Eventually(t, patience, "the flow", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.logs) == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
	named := b.logs[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().AsRaw()
	for key, want := range map[string]string{
		"source.k8s.pod.name": "web-0", "source.k8s.namespace.name": "shop",
		"destination.k8s.pod.name": "far-0", "destination.k8s.namespace.name": "bank",
	} {
		require.Equal(t, want, named[key], "%v", named)
	}
}

// TestGatewayKeepsNothing: what the back end does not take is no one's but the
// sender's, so a gateway that ends meanwhile takes nothing with it.
func TestGatewayKeepsNothing(t *testing.T) {
	n := newNode(t)
	b := n.serveHTTP(t)
	gateway := n.startGateway(t)
	path, file := witness(t)
	n.startGatewaysNode(t, "{"+file+", service: {pipelines: {metrics: {exporters: [file, otlp_grpc]}}}}",
		"{exporters: {otlp_grpc: {retry_on_failure: {initial_interval: 200ms, max_interval: 1s}}}}")
	b.awaitPods(t, n)

	b.setAway(true)
	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("not to be lost")
	body, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, n.post(t, "http://127.0.0.1:4318/v1/logs", body), "the sender is told")
	b.awaitRefusals(t, path)
	before := witnessed(t, path)
	gateway.kill()
	b.setAway(false)
	n.startGateway(t)
	b.awaitAll(t, before)
	t.Logf("all %d points of before the gateway's end arrived", len(before))
}

// serveHTTP serves OTLP in the node for the gateway.
func (n *node) serveHTTP(t *testing.T) *backend {
	t.Helper()
	b := &backend{}
	server := &http.Server{Handler: b}
	listener := listenIn(t, n.name, "127.0.0.1:8080")
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
	return b
}

func (n *node) startGateway(t *testing.T, configs ...string) *collector {
	t.Helper()
	return n.start(t, map[string]string{"OTLP_ENDPOINT": "http://127.0.0.1:8080", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"},
		append([]string{ready + "gateway.yaml", "{extensions: {podidentity: {sources: {k8s: {auth_type: none}}}}}"}, configs...)...)
}

// startGatewaysNode starts the collector of a node that sends to the gateway. Both are in
// one network namespace: its health check needs a port of its own.
func (n *node) startGatewaysNode(t *testing.T, configs ...string) *collector {
	t.Helper()
	return n.start(t, map[string]string{"GATEWAY_ENDPOINT": "127.0.0.1:4317", "GATEWAY_INSECURE": "true", "STATE_DIRECTORY": t.TempDir(), "K8S_NODE_NAME": "node-1", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"},
		append([]string{ready + "kubernetes-node.yaml", ready + "node-to-gateway.yaml", n.overlay(),
			`{extensions: {health_check: {endpoint: "127.0.0.1:13134"}, podidentity: {sources: {k8s: {auth_type: none}}}}}`}, configs...)...)
}

// post returns the status of the answer.
func (n *node) post(t *testing.T, url string, body []byte) int {
	t.Helper()
	response, err := n.client().Post(url, "application/x-protobuf", bytes.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// windowsPods is the state file of the Windows node whose metrics are sent.
func windowsPods(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "windows.yaml")
	require.NoError(t, os.WriteFile(path, []byte("pods: [{name: win-0, namespace: shop, addresses: [10.215.0.10]}]"), 0o644))
	return path
}

// sendWindowsMetrics sends what hnsstats makes on Windows, with every counter at
// some value and more.
func (n *node) sendWindowsMetrics(t *testing.T, more int64) {
	t.Helper()
	metrics := pmetric.NewMetrics()
	rm := metrics.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("hns.endpoint.id", "41d40000-820a-406a-ade6-6b0400000063")
	rm.Resource().Attributes().PutStr("k8s.pod.ip", "10.215.0.10")
	sm := rm.ScopeMetrics().AppendEmpty()
	value := more + 10
	sum := func(name, unit string, attributes ...map[string]any) {
		m := sm.Metrics().AppendEmpty()
		m.SetName(name)
		m.SetUnit(unit)
		s := m.SetEmptySum()
		s.SetIsMonotonic(true)
		s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		for _, a := range attributes {
			value++
			dp := s.DataPoints().AppendEmpty()
			dp.SetIntValue(value)
			dp.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Now().Add(-time.Hour)))
			dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
			require.NoError(t, dp.Attributes().FromRaw(a))
		}
	}
	both := func(more map[string]any) (all []map[string]any) {
		for _, direction := range []string{"receive", "transmit"} {
			a := map[string]any{"network.io.direction": direction}
			for k, v := range more {
				a[k] = v
			}
			all = append(all, a)
		}
		return all
	}
	eth := map[string]any{"network.interface.name": "eth0"}
	sum("k8s.pod.network.packet.count", "{packet}", both(eth)...)
	sum("k8s.pod.network.io", "By", both(eth)...)
	sum("k8s.pod.network.packet.dropped", "{packet}", append(
		both(map[string]any{"network.interface.name": "eth0", "reason": "endpoint"}), both(map[string]any{"network.interface.name": "eth0", "reason": "acl"})...)...)
	var events, flags []map[string]any
	for _, event := range []string{"verified", "timed_out", "reset", "reset_syn", "closed_fin", "half_open_timeout", "time_wait_expired"} {
		events = append(events, map[string]any{"event": event})
	}
	for _, flag := range []string{"syn", "syn_ack", "fin", "rst"} {
		flags = append(flags, both(map[string]any{"tcp.flag": flag})...)
	}
	sum("k8s.pod.network.tcp.connection.events", "{event}", events...)
	sum("k8s.pod.network.tcp.packet.count", "{packet}", flags...)
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, n.post(t, "http://127.0.0.1:4318/v1/metrics", body))
}
