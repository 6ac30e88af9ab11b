// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/test/entra"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestBaselinesWaitForNames: pods are there before the collector, and their names
// come after its first look at the counters. The first point of a series that
// arrives must be the one that starts when it was made: a back end takes what it
// gets first, and starts earlier, for what moved meanwhile.
func TestBaselinesWaitForNames(t *testing.T) {
	for name, test := range map[string]struct {
		configs  []string
		exporter string
		serve    func(*testing.T, *node, *backend) map[string]string
	}{
		"otlp": {[]string{ready + "otlp.yaml"}, "otlp_grpc", func(t *testing.T, n *node, b *backend) map[string]string {
			n.serveGRPC(t, b)
			return map[string]string{"OTLP_ENDPOINT": "127.0.0.1:4317", "OTLP_INSECURE": "true"}
		}},
		"azure-otlp": {[]string{ready + "azure-otlp.yaml"}, "otlp_http", func(t *testing.T, n *node, b *backend) map[string]string {
			tenant := newTenant()
			env := n.azure(t, tenant, b)
			identity := &http.Server{Handler: &entra.ManagedIdentity{Tenant: tenant, Header: "header"}}
			listener := listenIn(t, n.name, "127.0.0.1:41741")
			go func() { _ = identity.Serve(listener) }() // until Close
			t.Cleanup(func() { _ = identity.Close() })
			return map[string]string{
				"SSL_CERT_FILE": env["SSL_CERT_FILE"], "DCR_METRICS_ENDPOINT": env["DCR_METRICS_ENDPOINT"], "AZURE_CLIENT_ID": clientID,
				"IDENTITY_ENDPOINT": "http://127.0.0.1:41741/msi/token", "IDENTITY_HEADER": "header",
			}
		}},
		"node-to-gateway": {[]string{ready + "default.yaml", ready + "node-to-gateway.yaml"}, "otlp_grpc", func(t *testing.T, n *node, b *backend) map[string]string {
			n.serveGRPC(t, b)
			return map[string]string{"GATEWAY_ENDPOINT": "127.0.0.1:4317", "GATEWAY_INSECURE": "true"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			b := &backend{}
			env := test.serve(t, n, b)
			env["STATE_DIRECTORY"] = t.TempDir()
			n.fetch(t)
			// The files are older than the collector, as the runtime's sandboxes are.
			results := filepath.Join(t.TempDir(), "results")
			n.writeCNIResults(t, results+".later")
			// The runtime is away, so names may come for as long as the timeout allows.
			// One consumer of the queue: what was made first arrives first.
			c := n.start(t, env, append(test.configs, n.overlay(),
				"{extensions: {podidentity: {startup_timeout: 5s, sources: {statefile/test: {path: "+results+", format: cni-results}}}}, exporters: {"+test.exporter+": {sending_queue: {num_consumers: 1}}}}")...)
			testkit.Eventually(t, patience, "a first look at the counters", func() error {
				if !strings.Contains(c.readLog(), "The identities are not ready yet") {
					return fmt.Errorf("none in:\n%s", c.readLog())
				}
				return nil
			})
			require.NoError(t, os.Rename(results+".later", results))
			b.awaitPods(t, n)
			b.mu.Lock()
			defer b.mu.Unlock()
			seen := map[string]bool{}
			for _, metrics := range b.metrics {
				for id, dp := range series(metrics) {
					if !seen[id] {
						seen[id] = true
						require.Equal(t, dp.StartTimestamp(), dp.Timestamp(), "%s begins with %d", id, dp.IntValue())
					}
				}
			}
			require.GreaterOrEqual(t, len(seen), 3*8, "three pods of eight series")
		})
	}
}

// series are the data points of sums by what tells their series apart.
func series(metrics pmetric.Metrics) map[string]pmetric.NumberDataPoint {
	all := map[string]pmetric.NumberDataPoint{}
	for _, rm := range metrics.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for _, dp := range m.Sum().DataPoints().All() {
					all[fmt.Sprint(m.Name(), rm.Resource().Attributes().AsRaw(), dp.Attributes().AsRaw())] = dp
				}
			}
		}
	}
	return all
}

// writeCNIResults makes the directory in which libcni keeps what it gave each pod.
func (n *node) writeCNIResults(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	for i, p := range pods {
		id := fmt.Sprintf("%064d", i)
		content := fmt.Sprintf(`{"kind": "cniCacheV1", "containerId": %q, "ifName": "eth0", "networkName": "bed", "netns": "/run/netns/%s",
			"cniArgs": [["K8S_POD_NAMESPACE", %q], ["K8S_POD_NAME", %q]], "result": {"cniVersion": "1.0.0", "ips": [{"address": "%s/24"}]}}`,
			id, n.netns(p), namespace, p.name, p.address)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bed-"+id+"-eth0"), []byte(content), 0o644))
	}
}
