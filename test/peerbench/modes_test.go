// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"testing"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// TestModes records what the peer and ours do and do not name: the same data
// of the same pods, with associations in the same form.
func TestModes(t *testing.T) {
	association := func(source map[string]any) []any {
		return []any{map[string]any{"sources": []any{source}}}
	}
	attribute := func(name string) []any {
		return association(map[string]any{"from": "resource_attribute", "name": name})
	}
	connection := association(map[string]any{"from": "connection"})
	point := []any{map[string]any{"address": "k8s.pod.ip", "prefix": ""}}
	const anyPod = "*"

	for _, tc := range []struct {
		name                   string
		associations           []any // nil: the default
		peers                  []any // ours only: the peer has nothing like it
		namespace              string
		resource, point        map[string]string
		sender                 string
		peerNames, oursNames   string // on the resource
		peerPoint, oursOnPoint string
	}{
		{name: "resource k8s.pod.ip", associations: attribute("k8s.pod.ip"), resource: map[string]string{"k8s.pod.ip": podIP(3)}, peerNames: podName(3), oursNames: podName(3)},
		{name: "resource k8s.pod.ip, no associations", resource: map[string]string{"k8s.pod.ip": podIP(3)}, peerNames: podName(3), oursNames: podName(3)},
		{name: "second address of a dual-stack pod", associations: attribute("k8s.pod.ip"), resource: map[string]string{"k8s.pod.ip": "fd00::4"}, oursNames: podName(3)},
		{name: "IPv4-mapped address", associations: attribute("k8s.pod.ip"), resource: map[string]string{"k8s.pod.ip": "::ffff:" + podIP(3)}, oursNames: podName(3)},
		{name: "address with a port", associations: attribute("k8s.pod.ip"), resource: map[string]string{"k8s.pod.ip": podIP(3) + ":8080"}, oursNames: podName(3)},
		{name: "host.name", associations: attribute("host.name"), resource: map[string]string{"host.name": podIP(3)}, peerNames: podName(3), oursNames: podName(3)},
		{name: "any other attribute", associations: attribute("source.address"), resource: map[string]string{"source.address": podIP(3)}, oursNames: podName(3)},
		{name: "connection", associations: connection, sender: podIP(3), peerNames: podName(3), oursNames: podName(3)},
		{name: "connection, no associations", sender: podIP(3), peerNames: podName(3)},
		{name: "resource ip, no associations", resource: map[string]string{"ip": podIP(3)}, peerNames: podName(3)},
		{name: "another node's pod through a pod that passes it on", associations: append(attribute("k8s.pod.ip"), connection...), resource: map[string]string{"k8s.pod.ip": missIP(1)}, sender: podIP(3)},
		{name: "address of one pod, UID of another", associations: attribute("k8s.pod.ip"), resource: map[string]string{"k8s.pod.ip": podIP(3), "k8s.pod.uid": "ours"}, peerNames: podName(3)},
		{name: "address of one pod, name of another", associations: attribute("k8s.pod.ip"), resource: map[string]string{"k8s.pod.ip": podIP(3), "k8s.pod.name": "ours"}, peerNames: "ours", oursNames: "ours"},
		{name: "data point k8s.pod.ip", peers: point, point: map[string]string{"k8s.pod.ip": podIP(3)}, oursOnPoint: podName(3)},
		{name: "ignore annotation, which neither honours", associations: attribute("k8s.pod.ip"), namespace: "ignored100", resource: map[string]string{"k8s.pod.ip": podIP(3)}, peerNames: podName(3), oursNames: podName(3)},
		{name: "node address by connection", associations: connection, namespace: "hostnet5", sender: podIP(0)},
		{name: "node address on the resource", associations: attribute("k8s.pod.ip"), namespace: "hostnet5", resource: map[string]string{"k8s.pod.ip": podIP(0)}, peerNames: anyPod},
		{name: "host-network pod by UID", associations: attribute("k8s.pod.uid"), namespace: "hostnet5", resource: map[string]string{"k8s.pod.uid": podUID(2)}, peerNames: podName(2), oursNames: podName(2)},
	} {
		namespace := tc.namespace
		if namespace == "" {
			namespace = "bench100"
		}
		check := func(t *testing.T, start func(Env, consumer.Metrics) consumer.Metrics, wantResource, wantPoint string) {
			env := startEnv(t, namespace, 100)
			env.Telemetry = telemetry(true)
			out := &sink{keep: true}
			p := start(env, out)
			md := pmetric.NewMetrics()
			rm := md.ResourceMetrics().AppendEmpty()
			dp := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty()
			for name, value := range tc.resource {
				rm.Resource().Attributes().PutStr(name, value)
			}
			for name, value := range tc.point {
				dp.Attributes().PutStr(name, value)
			}
			ctx := context.Background()
			if tc.sender != "" {
				ctx = withPeer(ctx, tc.sender)
			}
			if err := p.ConsumeMetrics(ctx, md); err != nil {
				t.Fatal(err)
			}
			if got := str(rm.Resource().Attributes()); got != wantResource && (wantResource != anyPod || got == "") {
				t.Errorf("the resource got %q, not %q", got, wantResource)
			}
			if got := str(dp.Attributes()); got != wantPoint {
				t.Errorf("the data point got %q, not %q", got, wantPoint)
			}
		}
		t.Run(tc.name+"/k8sattributes", func(t *testing.T) {
			check(t, func(env Env, next consumer.Metrics) consumer.Metrics {
				return startK8sAttributes(t, env, next, override("pod_association", tc.associations, true))
			}, tc.peerNames, tc.peerPoint)
		})
		t.Run(tc.name+"/podenrich", func(t *testing.T) {
			conf := override("associations", tc.associations, false)
			if tc.peers != nil {
				conf["peers"] = tc.peers
			}
			check(t, func(env Env, next consumer.Metrics) consumer.Metrics {
				return startPodenrich(t, env, next, conf)
			}, tc.oursNames, tc.oursOnPoint)
		})
	}
}

// override sets a key of a configuration, or with a nil value removes it if it
// is there by default.
func override(key string, value []any, there bool) map[string]any {
	switch {
	case value != nil:
		return map[string]any{key: value}
	case there:
		return map[string]any{key: nil}
	}
	return map[string]any{}
}

// str is the pod's name in the attributes.
func str(m pcommon.Map) string {
	v, ok := m.Get("k8s.pod.name")
	if !ok {
		return ""
	}
	return v.AsString()
}
