// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/metadatatest"
)

type attrs = map[string]any

// web0 is what the processor adds for pod web-0.
var web0 = attrs{"k8s.pod.name": "web-0", "k8s.namespace.name": "shop", "k8s.pod.uid": "uid-of-web-0"}

// with returns the attributes of a and b together.
func with(a, b attrs) attrs {
	sum := attrs{}
	for _, m := range []attrs{a, b} {
		for k, v := range m {
			sum[k] = v
		}
	}
	return sum
}

func newConfig(change func(*Config)) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Identity = identityID
	if change != nil {
		change(cfg)
	}
	return cfg
}

// bed is a started metrics processor, what it passed on and its own metrics.
type bed struct {
	processor.Metrics
	sink      consumertest.MetricsSink
	telemetry *componenttest.Telemetry
}

func newBed(t testing.TB, cfg *Config, identities component.Component) *bed {
	t.Helper()
	require.NoError(t, cfg.Validate())
	b := &bed{telemetry: componenttest.NewTelemetry()}
	var err error
	b.Metrics, err = NewFactory().CreateMetrics(t.Context(), metadatatest.NewSettings(b.telemetry), cfg, &b.sink)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context(), host{identityID: identities}))
	t.Cleanup(func() {
		require.NoError(t, b.Shutdown(context.Background()))
		require.NoError(t, b.telemetry.Shutdown(context.Background()))
	})
	return b
}

// resource is the resource of the only batch that was passed on.
func (b *bed) resource(t testing.TB) attrs {
	t.Helper()
	all := b.sink.AllMetrics()
	require.Len(t, all, 1)
	return all[0].ResourceMetrics().At(0).Resource().Attributes().AsRaw()
}

// outcomes are the counts of one of the processor's own metrics.
func (b *bed) outcomes(t testing.TB, metric string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	m, err := b.telemetry.GetMetric("otelcol_processor_podenrich_" + metric)
	if err != nil {
		return counts // never counted
	}
	for _, dp := range m.Data.(metricdata.Sum[int64]).DataPoints {
		o, _ := dp.Attributes.Value("outcome")
		counts[o.AsString()] = dp.Value
	}
	return counts
}

// oneResource is a batch of one resource with a point at each of the times.
func oneResource(t testing.TB, resource attrs, times ...time.Time) pmetric.Metrics {
	t.Helper()
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	require.NoError(t, rm.Resource().Attributes().FromRaw(resource))
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("k8s.pod.network.io")
	points := m.SetEmptySum().DataPoints()
	for _, at := range times {
		points.AppendEmpty().SetTimestamp(stamp(at))
	}
	return md
}

// stamp is a time as a timestamp; the zero time is none.
func stamp(at time.Time) pcommon.Timestamp {
	if at.IsZero() {
		return 0
	}
	return pcommon.NewTimestampFromTime(at)
}

// sentFrom is a context with a client's address.
func sentFrom(addr net.Addr) context.Context {
	return client.NewContext(context.Background(), client.Info{Addr: addr})
}

func TestResource(t *testing.T) {
	at := epoch.Add(time.Second)
	overwrite := func(c *Config) { c.Overwrite = true }
	for _, tc := range []struct {
		name    string
		change  func(*Config)
		in      attrs
		want    attrs
		outcome string
	}{
		// Each key.
		{name: "address", in: attrs{"k8s.pod.ip": "10.9.0.5"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5"}), outcome: "found"},
		{name: "second family", in: attrs{"k8s.pod.ip": "fd00::5"}, want: with(web0, attrs{"k8s.pod.ip": "fd00::5"}), outcome: "found"},
		{name: "IPv4-mapped address with a port", in: attrs{"k8s.pod.ip": "[::ffff:10.9.0.5]:80"}, want: with(web0, attrs{"k8s.pod.ip": "[::ffff:10.9.0.5]:80"}), outcome: "found"},
		{name: "pod UID", in: attrs{"k8s.pod.uid": "uid-of-web-0"}, want: web0, outcome: "found"},
		{name: "network namespace", in: attrs{"linux.netns.inode": webNetNS}, want: web0, outcome: "found"},
		{name: "network namespace that became a string", in: attrs{"linux.netns.inode": "4026532001"}, want: web0, outcome: "found"},
		{name: "HNS endpoint, in any case", in: attrs{"hns.endpoint.id": "41D40000-820A-406A-ADE6-6B0400000063"}, want: web0, outcome: "found"},
		{name: "sandbox id beside an endpoint that is not known itself", in: attrs{"hns.endpoint.id": "ffff", "container.id": "sandbox-of-web-0"}, want: web0, outcome: "found"},
		{name: "sandbox id alone, which stays", in: attrs{"container.id": "sandbox-of-web-0"}, want: with(web0, attrs{"container.id": "sandbox-of-web-0"}), outcome: "found"},
		{name: "pod without a UID", in: attrs{"k8s.pod.ip": "10.9.0.6"}, want: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "cart-0", "k8s.namespace.name": "shop"}, outcome: "found"},

		// A stronger key wins, and never with another pod's weaker one.
		{name: "network namespace before address", in: attrs{"linux.netns.inode": webNetNS, "k8s.pod.ip": "10.9.0.6"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.6"}), outcome: "found"},
		{name: "address of a pod with another UID", in: attrs{"k8s.pod.uid": "uid-of-none", "k8s.pod.ip": "10.9.0.5"}, want: attrs{"k8s.pod.uid": "uid-of-none", "k8s.pod.ip": "10.9.0.5"}, outcome: "mismatch"},
		{name: "address of a pod in another network namespace", in: attrs{"linux.netns.inode": 1, "k8s.pod.ip": "10.9.0.5"}, want: attrs{"linux.netns.inode": int64(1), "k8s.pod.ip": "10.9.0.5"}, outcome: "mismatch"},
		{name: "another node's network namespace, where the pod's is not known", in: attrs{"linux.netns.inode": 1, "k8s.pod.ip": "10.9.0.6"}, want: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "cart-0", "k8s.namespace.name": "shop"}, outcome: "found"},
		{name: "id of an application's container is no sandbox's", in: attrs{"container.id": "app", "k8s.pod.ip": "10.9.0.5"}, want: with(web0, attrs{"container.id": "app", "k8s.pod.ip": "10.9.0.5"}), outcome: "found"},

		// What tells no pods apart.
		{name: "no key at all", in: attrs{"host.name": "node"}, want: attrs{"host.name": "node"}, outcome: "no_key"},
		{name: "unknown address", in: attrs{"k8s.pod.ip": "10.200.0.1"}, want: attrs{"k8s.pod.ip": "10.200.0.1"}, outcome: "unknown"},
		{name: "unknown container", in: attrs{"container.id": "app"}, want: attrs{"container.id": "app"}, outcome: "unknown"},
		{name: "two pods claim the address", in: attrs{"k8s.pod.ip": "10.9.0.8"}, want: attrs{"k8s.pod.ip": "10.9.0.8"}, outcome: "ambiguous"},
		{name: "address that is free by now", in: attrs{"k8s.pod.ip": "10.9.0.9"}, want: attrs{"k8s.pod.ip": "10.9.0.9"}, outcome: "ended"},
		{name: "loopback", in: attrs{"k8s.pod.ip": "127.0.0.1"}, want: attrs{"k8s.pod.ip": "127.0.0.1"}, outcome: "unusable_key"},
		{name: "link-local", in: attrs{"k8s.pod.ip": "fe80::1%eth0"}, want: attrs{"k8s.pod.ip": "fe80::1%eth0"}, outcome: "unusable_key"},
		{name: "no address in the address attribute", in: attrs{"k8s.pod.ip": "web-0.shop"}, want: attrs{"k8s.pod.ip": "web-0.shop"}, outcome: "unusable_key"},
		{name: "number in the address attribute", in: attrs{"k8s.pod.ip": 5}, want: attrs{"k8s.pod.ip": int64(5)}, outcome: "unusable_key"},
		{name: "negative network namespace", in: attrs{"linux.netns.inode": -1}, want: attrs{"linux.netns.inode": int64(-1)}, outcome: "unusable_key"},
		{name: "unusable strong key beside an address", in: attrs{"k8s.pod.uid": "", "k8s.pod.ip": "10.9.0.5"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5"}), outcome: "found"},

		// The node's own address is nobody's, its host-network pods have UIDs.
		{name: "node address", in: attrs{"k8s.pod.ip": "192.0.2.1"}, want: attrs{"k8s.pod.ip": "192.0.2.1"}, outcome: "unknown"},
		{name: "host-network pod by UID", in: attrs{"k8s.pod.uid": "uid-of-agent-x"}, want: attrs{"k8s.pod.uid": "uid-of-agent-x", "k8s.pod.name": "agent-x", "k8s.namespace.name": "shop"}, outcome: "found"},
		{name: "host-network pod by sandbox id", in: attrs{"container.id": "sandbox-of-agent-x"}, want: attrs{"container.id": "sandbox-of-agent-x", "k8s.pod.uid": "uid-of-agent-x", "k8s.pod.name": "agent-x", "k8s.namespace.name": "shop"}, outcome: "found"},

		// Keys that are there for the look-up only.
		{name: "keys of an endpoint are removed", in: attrs{"hns.endpoint.id": webHNS, "hns.namespace.id": "0a0b0c0d-1111-4222-8333-00000000bb01", "container.id": "sandbox-of-web-0", "linux.netns.inode": webNetNS, "k8s.pod.ip": "10.9.0.5"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5"}), outcome: "found"},
		{name: "keep_keys", change: func(c *Config) { c.KeepKeys = true }, in: attrs{"hns.endpoint.id": webHNS, "container.id": "sandbox-of-web-0"}, want: with(web0, attrs{"hns.endpoint.id": webHNS, "container.id": "sandbox-of-web-0"}), outcome: "found"},
		{name: "keys of an endpoint without a name stay, or endpoints would fall together", in: attrs{"hns.endpoint.id": "ffff", "container.id": "c"}, want: attrs{"hns.endpoint.id": "ffff", "container.id": "c"}, outcome: "unknown"},

		// Labels and annotations.
		{name: "labels asked for", change: func(c *Config) { c.Labels = []string{"app", "absent"} }, in: attrs{"k8s.pod.ip": "10.9.0.5"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.label.app": "web"}), outcome: "found"},
		{name: "annotations asked for", change: func(c *Config) { c.Annotations = []string{"team"} }, in: attrs{"k8s.pod.ip": "10.9.0.5"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.annotation.team": "checkout"}), outcome: "found"},
		{name: "label of a pod without labels", change: func(c *Config) { c.Labels = []string{"app"} }, in: attrs{"k8s.pod.ip": "10.9.0.6"}, want: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "cart-0", "k8s.namespace.name": "shop"}, outcome: "found"},

		// What is there already.
		{name: "the same name is completed", in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": "web-0"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5"}), outcome: "found"},
		{name: "another name: nothing is written", in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": "mine"}, want: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": "mine"}, outcome: "conflict"},
		{name: "another namespace: nothing is written", in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.namespace.name": "mine"}, want: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.namespace.name": "mine"}, outcome: "conflict"},
		{name: "name that is no string: nothing is written", in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": 7}, want: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": int64(7)}, outcome: "conflict"},
		{name: "keys stay on a conflict", in: attrs{"linux.netns.inode": webNetNS, "k8s.pod.name": "mine"}, want: attrs{"linux.netns.inode": int64(webNetNS), "k8s.pod.name": "mine"}, outcome: "conflict"},
		{name: "empty name is filled", in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": ""}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5"}), outcome: "found"},
		{name: "label that is there stays", change: func(c *Config) { c.Labels = []string{"app"} }, in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.label.app": "mine"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.label.app": "mine"}), outcome: "found"},
		{name: "overwrite", change: overwrite, in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.name": "mine", "k8s.namespace.name": "mine"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5"}), outcome: "found"},
		{name: "overwrite a label", change: func(c *Config) { c.Overwrite, c.Labels = true, []string{"app"} }, in: attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.label.app": "mine"}, want: with(web0, attrs{"k8s.pod.ip": "10.9.0.5", "k8s.pod.label.app": "web"}), outcome: "found"},
		{name: "overwrite leaves no UID of the pod overwritten", change: overwrite, in: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "mine", "k8s.pod.uid": "mine"}, want: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "cart-0", "k8s.namespace.name": "shop"}, outcome: "found"},
		{name: "overwrite keeps the UID of the same pod", change: overwrite, in: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "cart-0", "k8s.pod.uid": "mine"}, want: attrs{"k8s.pod.ip": "10.9.0.6", "k8s.pod.name": "cart-0", "k8s.namespace.name": "shop", "k8s.pod.uid": "mine"}, outcome: "found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withIdentities(t, node(), func(t *testing.T, identities component.Component) {
				b := newBed(t, newConfig(tc.change), identities)
				require.NoError(t, b.ConsumeMetrics(t.Context(), oneResource(t, tc.in, at)))
				assert.Equal(t, tc.want, b.resource(t))
				assert.Equal(t, map[string]int64{tc.outcome: 1}, b.outcomes(t, "resources"))
				assert.Equal(t, map[string]int64{tc.outcome: 1}, b.outcomes(t, "items"))
			})
		})
	}
}

func TestTheDataSaysForWhichTime(t *testing.T) {
	before, after := epoch.Add(-time.Second), epoch.Add(time.Second)
	// A StatefulSet's pod and the next one of its name, with its address.
	first, next := pod("db-0", "uid-of-first", "10.9.0.10"), pod("db-0", "uid-of-next", "10.9.0.10")
	first.Owner, first.Sandbox, first.end = "first", "first", epoch
	next.Owner, next.Sandbox, next.Begin = "next", "next", epoch
	for _, tc := range []struct {
		name    string
		address string
		times   []time.Time
		want    any
		outcome string
	}{
		{name: "before the address changed hands", address: "10.9.0.7", times: []time.Time{before}, want: "old-0", outcome: "found"},
		{name: "after", address: "10.9.0.7", times: []time.Time{after}, want: "new-0", outcome: "found"},
		{name: "no timestamp is now", address: "10.9.0.7", times: []time.Time{{}}, want: "new-0", outcome: "found"},
		{name: "no data point is now", address: "10.9.0.7", want: "new-0", outcome: "found"},
		{name: "both pods' data on one resource", address: "10.9.0.7", times: []time.Time{after, before}, outcome: "ambiguous"},
		{name: "old pod's data and data without a timestamp", address: "10.9.0.7", times: []time.Time{{}, before}, outcome: "ambiguous"},
		{name: "new pod's data and data without a timestamp", address: "10.9.0.7", times: []time.Time{after, {}}, want: "new-0", outcome: "found"},
		{name: "data from before and after the pod's end", address: "10.9.0.9", times: []time.Time{before, after}, outcome: "ended"},
		{name: "data of two pods of one name", address: "10.9.0.10", times: []time.Time{before, after}, outcome: "ambiguous"},
		{name: "data of the first of two pods of one name, and data without a timestamp", address: "10.9.0.10", times: []time.Time{before, {}}, outcome: "ambiguous"},
		{name: "data of the second of them", address: "10.9.0.10", times: []time.Time{after, {}}, want: "db-0", outcome: "found"},
		{name: "data of one pod over a time", address: "10.9.0.5", times: []time.Time{before, after, epoch}, want: "web-0", outcome: "found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withIdentities(t, append(node(), first, next), func(t *testing.T, identities component.Component) {
				b := newBed(t, newConfig(nil), identities)
				require.NoError(t, b.ConsumeMetrics(t.Context(), oneResource(t, attrs{"k8s.pod.ip": tc.address}, tc.times...)))
				assert.Equal(t, tc.want, b.resource(t)["k8s.pod.name"])
				assert.Equal(t, map[string]int64{tc.outcome: 1}, b.outcomes(t, "resources"))
				assert.Equal(t, map[string]int64{tc.outcome: int64(len(tc.times))}, b.outcomes(t, "items"))
			})
		})
	}
}
