// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func TestPeers(t *testing.T) {
	cart := func(prefix string) attrs {
		return attrs{prefix + "k8s.pod.name": "cart-0", prefix + "k8s.namespace.name": "shop"}
	}
	web := func(prefix string) attrs {
		return attrs{prefix + "k8s.pod.name": "web-0", prefix + "k8s.namespace.name": "shop", prefix + "k8s.pod.uid": "uid-of-web-0"}
	}
	for _, tc := range []struct {
		name     string
		change   func(*Config)
		in       attrs
		at       time.Time
		want     attrs
		outcomes map[string]int64
	}{
		{name: "both ends", in: attrs{"source.address": "10.9.0.6", "destination.address": "[fd00::5]:80"}, want: with(cart("source."), web("destination.")), outcomes: map[string]int64{"found": 2}},
		{name: "one end outside", in: attrs{"source.address": "10.9.0.6", "destination.address": "203.0.113.1"}, want: cart("source."), outcomes: map[string]int64{"found": 1, "unknown": 1}},
		{name: "host name and loopback", in: attrs{"source.address": "127.0.0.1", "destination.address": "web.shop"}, outcomes: map[string]int64{"unusable_key": 2}},
		{name: "no addresses", in: attrs{"http.route": "/"}, outcomes: map[string]int64{}},
		{name: "old holder, by the point's own time", in: attrs{"source.address": "10.9.0.7"}, at: epoch.Add(-time.Second), want: attrs{"source.k8s.pod.name": "old-0", "source.k8s.namespace.name": "shop", "source.k8s.pod.uid": "uid-of-old-0"}, outcomes: map[string]int64{"found": 1}},
		{name: "new holder", in: attrs{"source.address": "10.9.0.7"}, at: epoch, want: attrs{"source.k8s.pod.name": "new-0", "source.k8s.namespace.name": "shop", "source.k8s.pod.uid": "uid-of-new-0"}, outcomes: map[string]int64{"found": 1}},
		{name: "new holder, without a timestamp", in: attrs{"source.address": "10.9.0.7"}, want: attrs{"source.k8s.pod.name": "new-0", "source.k8s.namespace.name": "shop", "source.k8s.pod.uid": "uid-of-new-0"}, outcomes: map[string]int64{"found": 1}},
		{name: "labels", change: func(c *Config) { c.Labels = []string{"app"} }, in: attrs{"destination.address": "10.9.0.5"}, want: with(web("destination."), attrs{"destination.k8s.pod.label.app": "web"}), outcomes: map[string]int64{"found": 1}},
		{name: "another name is there", in: attrs{"source.address": "10.9.0.6", "source.k8s.pod.name": "mine"}, outcomes: map[string]int64{"conflict": 1}},
		{name: "overwrite", change: func(c *Config) { c.Overwrite = true }, in: attrs{"source.address": "10.9.0.6", "source.k8s.pod.name": "mine"}, want: cart("source."), outcomes: map[string]int64{"found": 1}},
		{name: "no prefix: the point's own pod", change: func(c *Config) { c.Peers = []PeerConfig{{Address: "k8s.pod.ip"}} }, in: attrs{"k8s.pod.ip": "10.9.0.6"}, want: cart(""), outcomes: map[string]int64{"found": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := newConfig(func(c *Config) {
				c.Peers = []PeerConfig{{Address: "source.address", Prefix: "source."}, {Address: "destination.address", Prefix: "destination."}}
			})
			if tc.change != nil {
				tc.change(cfg)
			}
			withIdentities(t, node(), func(t *testing.T, identities component.Component) {
				b := newBed(t, cfg, identities)
				md := oneResource(t, nil, tc.at)
				dp := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints().At(0)
				require.NoError(t, dp.Attributes().FromRaw(tc.in))
				require.NoError(t, b.ConsumeMetrics(t.Context(), md))
				assert.Equal(t, with(tc.in, tc.want), dp.Attributes().AsRaw())
				assert.Empty(t, b.resource(t), "peers are no business of the resource")
				assert.Equal(t, tc.outcomes, b.outcomes(t, "peers"))
			})
		})
	}
}

// Each type of metric has its own kind of data points.
func TestEveryMetricType(t *testing.T) {
	point := func(p interface{ dataPoint }) { p.Attributes().PutStr("source.address", "10.9.0.6") }
	for name, fill := range map[string]func(pmetric.Metric){
		"gauge": func(m pmetric.Metric) { point(m.SetEmptyGauge().DataPoints().AppendEmpty()) },
		"sum":   func(m pmetric.Metric) { point(m.SetEmptySum().DataPoints().AppendEmpty()) },
		"histogram": func(m pmetric.Metric) {
			point(m.SetEmptyHistogram().DataPoints().AppendEmpty())
		},
		"exponential histogram": func(m pmetric.Metric) {
			point(m.SetEmptyExponentialHistogram().DataPoints().AppendEmpty())
		},
		"summary": func(m pmetric.Metric) { point(m.SetEmptySummary().DataPoints().AppendEmpty()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, newConfig(func(c *Config) { c.Peers = []PeerConfig{{Address: "source.address", Prefix: "source."}} }), newFake(node()...))
			md := pmetric.NewMetrics()
			rm := md.ResourceMetrics().AppendEmpty()
			rm.Resource().Attributes().PutStr("k8s.pod.ip", "10.9.0.5")
			fill(rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty())
			require.NoError(t, b.ConsumeMetrics(t.Context(), md))
			assert.Equal(t, map[string]int64{"found": 1}, b.outcomes(t, "items"))
			assert.Equal(t, map[string]int64{"found": 1}, b.outcomes(t, "peers"))
		})
	}
	t.Run("none", func(t *testing.T) {
		b := newBed(t, newConfig(nil), newFake(node()...))
		md := oneResource(t, attrs{"k8s.pod.ip": "10.9.0.5"})
		md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().AppendEmpty()
		require.NoError(t, b.ConsumeMetrics(t.Context(), md))
		assert.Equal(t, map[string]int64{"found": 0}, b.outcomes(t, "items"))
	})
}
