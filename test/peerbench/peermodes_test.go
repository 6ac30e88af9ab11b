// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"os"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// TestPeerModes records what the peer does and does not enrich.
func TestPeerModes(t *testing.T) {
	byIP := []any{map[string]any{"sources": []any{map[string]any{"from": "resource_attribute", "name": "k8s.pod.ip"}}}}
	byConn := []any{map[string]any{"sources": []any{map[string]any{"from": "connection"}}}}
	byNet := []any{map[string]any{"sources": []any{map[string]any{"from": "resource_attribute", "name": "source.address"}}}}
	byHost := []any{map[string]any{"sources": []any{map[string]any{"from": "resource_attribute", "name": "host.name"}}}}
	for _, tc := range []struct {
		name          string
		assoc         any
		ns            string
		res, dp, peer string // attribute=IP on the resource / the data point; connection IP
		attr          string
		wantRes       string
		wantDP        string
	}{
		{name: "resource k8s.pod.ip", assoc: byIP, res: podIP(3), attr: "k8s.pod.ip", wantRes: podName(3)},
		{name: "data point k8s.pod.ip", assoc: byIP, dp: podIP(3), attr: "k8s.pod.ip"},
		{name: "data point k8s.pod.ip, no associations", assoc: nil, dp: podIP(3), attr: "k8s.pod.ip"},
		{name: "connection", assoc: byConn, peer: podIP(3), wantRes: podName(3)},
		{name: "no associations: connection", assoc: nil, peer: podIP(3), wantRes: podName(3)},
		{name: "no associations: resource ip", assoc: nil, res: podIP(3), attr: "ip", wantRes: podName(3)},
		{name: "resource host.name", assoc: byHost, res: podIP(3), attr: "host.name", wantRes: podName(3)},
		{name: "resource source.address", assoc: byNet, res: podIP(3), attr: "source.address"},
		{name: "second IP of a dual-stack pod", assoc: byIP, res: "fd00::4", attr: "k8s.pod.ip"},
		{name: "IPv4-mapped IPv6 form", assoc: byIP, res: "::ffff:" + podIP(3), attr: "k8s.pod.ip"},
		{name: "IP:port", assoc: byIP, res: podIP(3) + ":8080", attr: "k8s.pod.ip"},
		{name: "ignore annotation (is not honoured)", assoc: byIP, ns: "ignored5", res: podIP(3), attr: "k8s.pod.ip", wantRes: podName(3)},
		{name: "host network by connection", assoc: byConn, ns: "hostnet5", peer: podIP(0)},
		{name: "host network by k8s.pod.ip (one of the pods on the node)", assoc: byIP, ns: "hostnet5", res: podIP(0), attr: "k8s.pod.ip", wantRes: "*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := startEnv(t, 100)
			if tc.ns != "" {
				if os.Getenv("PEERBENCH_KUBECONFIG") != "" {
					t.Skip("stub only")
				}
				env.Namespace = tc.ns
			}
			env.Telemetry = telemetry(true)
			out := &sink{keep: true}
			p := startK8sAttributes(t, env, out, map[string]any{"pod_association": tc.assoc})
			md := pmetric.NewMetrics()
			rm := md.ResourceMetrics().AppendEmpty()
			dp := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty()
			if tc.res != "" {
				rm.Resource().Attributes().PutStr(tc.attr, tc.res)
			}
			if tc.dp != "" {
				dp.Attributes().PutStr(tc.attr, tc.dp)
			}
			ctx := context.Background()
			if tc.peer != "" {
				ctx = withPeer(ctx, tc.peer)
			}
			if err := p.ConsumeMetrics(ctx, md); err != nil {
				t.Fatal(err)
			}
			got := str(out.last.ResourceMetrics().At(0).Resource().Attributes())
			gotDP := str(out.last.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints().At(0).Attributes())
			t.Logf("resource %v -> data point %v", out.last.ResourceMetrics().At(0).Resource().Attributes().AsRaw(), out.last.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints().At(0).Attributes().AsRaw())
			if tc.wantRes == "*" {
				if got == "" {
					t.Errorf("resource got no pod")
				}
			} else if got != tc.wantRes {
				t.Errorf("resource got %q, expected %q", got, tc.wantRes)
			}
			if gotDP != tc.wantDP {
				t.Errorf("data point got %q, expected %q", gotDP, tc.wantDP)
			}
		})
	}
}

func str(m pcommon.Map) string {
	v, ok := m.Get("k8s.pod.name")
	if !ok {
		return ""
	}
	return v.AsString()
}
