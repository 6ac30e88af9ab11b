// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/entra"
)

const bytesMetric = "k8s_pod_network_io_bytes_total"

// TestRemoteWrite: the back end is away at first. The log says so, and what arrives
// afterwards are the kernel's counters.
func TestRemoteWrite(t *testing.T) {
	n := newNode(t)
	c := n.start(t, map[string]string{"PROMETHEUS_REMOTE_WRITE_URL": prometheusURL + "/api/v1/write", "NODE_NAME": "node-1"},
		ready+"prometheus-remote-write.yaml", n.overlay(), "{exporters: {prometheus_remote_write: {retry_on_failure: {initial_interval: 1s, max_interval: 1s, max_elapsed_time: 2s}}}}")
	said := c.firstLine(t, "error")
	require.Contains(t, said, "Exporting failed")
	require.Contains(t, said, "127.0.0.1:9090")
	require.Contains(t, said, "connection refused")

	p := n.startPrometheus(t)
	got := p.awaitPods(t, bytesMetric)
	require.Equal(t, "otelcol-retina", got.Labels["job"])
	require.Equal(t, "node-1", got.Labels["instance"])
	require.Equal(t, "eth0", got.Labels["network_interface_name"])
	require.NotEmpty(t, p.Query(t, `sum by (k8s_pod_name, reason) (k8s_pod_network_packet_dropped_total)`))
}

const (
	tenantID = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	clientID = "11111111-2222-3333-4444-555555555555"
	secret   = "s3cret~value"
	scope    = "https://monitor.azure.com/.default"
)

// serveTLS serves in the node, and returns the URL and the certificate in PEM.
func (n *node) serveTLS(t *testing.T, handler http.Handler) (string, []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listenIn(t, n.name, "127.0.0.1:0")
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// azure is a tenant, and a data collection rule's endpoint that takes its tokens
// only, in front of a handler.
func (n *node) azure(t *testing.T, tenant *entra.Tenant, rule http.Handler) (env map[string]string) {
	t.Helper()
	authority, ca1 := n.serveTLS(t, tenant)
	endpoint, ca2 := n.serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !tenant.Issued(r.Header.Get("Authorization")) {
			http.Error(w, "no token of this tenant", http.StatusUnauthorized)
			return
		}
		rule.ServeHTTP(w, r)
	}))
	roots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, append(ca1, ca2...), 0o644))
	return map[string]string{
		"SSL_CERT_FILE": roots, "AZURE_AUTHORITY_HOST": authority + "/", "DCR_METRICS_ENDPOINT": endpoint + "/dataCollectionRules/dcr-1/streams/Microsoft-PrometheusMetrics/api/v1/write?api-version=2023-04-24",
		"AZURE_TENANT_ID": tenantID, "AZURE_CLIENT_ID": clientID, "AZURE_CLIENT_SECRET": secret, "NODE_NAME": "node-1",
	}
}

func newTenant() *entra.Tenant {
	return &entra.Tenant{ID: tenantID, ClientID: clientID, Secret: secret, Scope: scope}
}

// rule passes remote writes on to Prometheus.
func (n *node) rule() http.Handler {
	target, err := url.Parse(prometheusURL)
	if err != nil {
		panic(err) // a constant
	}
	return &httputil.ReverseProxy{
		Transport: n.client().Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path, r.Out.URL.RawQuery = "/api/v1/write", ""
		},
	}
}

func TestAzureManagedPrometheus(t *testing.T) {
	for _, test := range []struct{ name, overlay string }{
		{"azureidentity", "{}"},
		// What the configuration's comment says, as a user would write it.
		{"oauth2client", `{
			extensions: {oauth2client: {token_url: "${env:AZURE_AUTHORITY_HOST}${env:AZURE_TENANT_ID}/oauth2/v2.0/token",
				client_id: "${env:AZURE_CLIENT_ID}", client_secret: "${env:AZURE_CLIENT_SECRET}", scopes: [https://monitor.azure.com/.default]}},
			exporters: {prometheus_remote_write: {http: {auth: {authenticator: oauth2client}}}},
			service: {extensions: [podidentity, oauth2client]}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			tenant := newTenant()
			env := n.azure(t, tenant, n.rule())
			p := n.startPrometheus(t)
			n.start(t, env, ready+"azure-managed-prometheus.yaml", n.overlay(), strings.Join(strings.Fields(test.overlay), " "))
			p.awaitPods(t, bytesMetric)
			require.Equal(t, 1, tenant.Asked(), "one token for many writes")
		})
	}
}

// TestWrongTenant: the collector starts, and the first error in its log says who was
// refused, where, and what to do.
func TestWrongTenant(t *testing.T) {
	n := newNode(t)
	tenant := newTenant()
	env := n.azure(t, tenant, n.rule())
	env["AZURE_TENANT_ID"] = "fabrikam.com"
	c := n.start(t, env, ready+"azure-managed-prometheus.yaml", n.overlay())
	said := c.firstLine(t, "error")
	for _, want := range []string{
		"azureidentity", "Azure gives no token", scope, `tenant "fabrikam.com"`, clientID, env["AZURE_AUTHORITY_HOST"], "AADSTS90002", "(check tenant_id)",
	} {
		require.Contains(t, said, want)
	}
	require.NotContains(t, c.readLog(), secret)
}

// TestRetinasNames runs queries of the form of Retina's dashboards and of alerts
// made for it, in a real Prometheus: on Linux's live counters, and on those of a
// Windows node, which come by OTLP as hnsstats makes them there.
func TestRetinasNames(t *testing.T) {
	n := newNode(t)
	p := n.startPrometheus(t)
	n.start(t, nil, ready+"retina-compat.yaml", n.overlay(), `{
		receivers: {hnsstats: {netlink: {tcp: {enabled: true}}}, otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}},
		extensions: {podidentity: {sources: {statefile/windows: {path: `+windowsPods(t)+`, format: list}}}},
		service: {pipelines: {metrics: {receivers: [hnsstats, otlp]}}}}`)
	for i := range 2 { // a rate needs two samples
		n.fetch(t)
		n.sendWindowsMetrics(t, int64(i)*100)
		p.await(t, fmt.Sprintf(`count(networkobservability_windows_hns_stats{direction="win_packets_recv_count"} >= %d)`, 11+i*100), 0)
		p.await(t, `max(networkobservability_forward_bytes{podname="web-0",direction="egress"})`, n.sent(t, pods[0])-1)
	}
	for _, test := range []struct {
		query string
		above float64
	}{
		{`sum(rate(networkobservability_forward_bytes{direction="egress", instance=~".+"}[1m]))`, 0},
		{`sum by (instance) (rate(networkobservability_forward_count{direction="ingress"}[1m]))`, 0},
		{`topk(1, sum by (podname, namespace) (rate(networkobservability_forward_bytes{namespace="shop"}[1m])))`, 0},
		{`sum(rate(networkobservability_drop_count[1m]))`, -1},
		{`count(sum by (reason, direction) (networkobservability_drop_count))`, 3}, // endpoint and aclrule, both ways
		{`sum(networkobservability_drop_count{reason="aclrule",direction="ingress",podname="win-0"})`, 0},
		{`sum(rate(networkobservability_tcp_connection_stats{statistic_name="ResetCount",podname="win-0"}[1m]))`, 0},
		{`sum(networkobservability_tcp_connection_stats{statistic_name="PassiveOpens",podname="web-0"})`, 3},
		{`count(networkobservability_tcp_connection_stats{podname="win-0",statistic_name=~"ResetCount|ClosedFin|ResetSyn|TcpHalfOpenTimeouts|Verified|TimedOutCount|TimeWaitExpiredCount"})`, 6},
		{`sum(rate(networkobservability_tcp_flag_gauges{flag="RST",direction="egress"}[1m]))`, 0},
		{`count(networkobservability_tcp_flag_gauges{flag=~"SYN|SYNACK|FIN|RST",direction=~"ingress|egress"})`, 7},
		{`sum(rate(networkobservability_windows_hns_stats{direction="win_packets_sent_count"}[1m]))`, 0},
		{`count(networkobservability_windows_hns_stats{podname="win-0",namespace="shop",ip="10.215.0.10"})`, 3},
		{`count(networkobservability_forward_count{podname="web-0",namespace="shop",ip="10.214.0.10"})`, 1},
	} {
		p.await(t, test.query, test.above)
	}
	page, err := n.get("http://127.0.0.1:8889/metrics")
	require.NoError(t, err)
	for line := range strings.Lines(page) {
		require.True(t, strings.HasPrefix(line, "#") || strings.HasPrefix(line, "networkobservability_"), line)
		require.NotContains(t, line, "k8s_", line)
	}
	require.NotContains(t, page, `windows_hns_stats{direction="ingress"`)
	require.NotContains(t, page, `windows_hns_stats{direction="win_bytes_recv_count",ip="10.214`, "Linux has none")
}

// TestKubernetesNode: with the API server away, the runtime's (here a file's) names
// are enough. Both pages can be read from outside of the node.
func TestKubernetesNode(t *testing.T) {
	n := newNode(t)
	n.ownMetrics = true
	ip(t, "-n", n.name, "address", "add", "192.0.2.1/32", "dev", "lo")
	p := n.startPrometheus(t)
	c := n.start(t, map[string]string{"K8S_NODE_NAME": "node-1", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}, ready+"kubernetes-node.yaml", n.overlay(),
		`{extensions: {podidentity: {sources: {k8s: {auth_type: none}}}}}`)
	p.awaitPods(t, bytesMetric)
	_, err := n.get("http://127.0.0.1:13133/")
	require.NoError(t, err, "the kubelet's probe")
	require.Contains(t, c.readLog(), "The source is down")
	for port, names := range map[string][]string{
		"8889": {bytesMetric + "{"},
		// As the alerts and the dashboard have them.
		"8888": {`otelcol_extension_podidentity_source_up{source="k8s"} 0`, "otelcol_processor_podenrich_items{"},
	} {
		page, err := n.get("http://192.0.2.1:" + port + "/metrics")
		require.NoError(t, err)
		for _, name := range names {
			require.Contains(t, page, name)
		}
	}
}
