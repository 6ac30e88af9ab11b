// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor"
)

func init() {
	register(Component{
		Name:             "podenrich",
		Shapes:           []Shape{OnResource},
		EnrichesResource: true,
		Start: func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			return startPodenrich(tb, env, next, nil)
		},
	})
	// Points of many pods under one resource are named in place.
	register(Component{
		Name:   "podenrich-peers",
		Shapes: []Shape{OnPoint},
		Start: func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			return startPodenrich(tb, env, next, map[string]any{
				"peers": []any{map[string]any{"address": "k8s.pod.ip", "prefix": ""}},
			})
		},
	})
}

func startPodenrich(tb testing.TB, env Env, next consumer.Metrics, override map[string]any) consumer.Metrics {
	cfg := map[string]any{"identity": "podidentity"}
	for k, v := range override {
		cfg[k] = v
	}
	h := host{component.MustNewID("podidentity"): startIdentities(tb, env)}
	return startProcessor(tb, podenrichprocessor.NewFactory(), env, h, next, cfg)
}

type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

// startIdentities starts the real podidentity extension, and tells it env's
// pods as an extension that publishes would.
func startIdentities(tb testing.TB, env Env) component.Component {
	f := podidentityextension.NewFactory()
	set := extensiontest.NewNopSettings(f.Type())
	set.TelemetrySettings = env.Telemetry
	ext, err := f.Create(context.Background(), set, f.CreateDefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
	if err := ext.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ext.Shutdown(context.Background()) })
	for i := range env.Pods {
		if err := ext.(podidentity.Publisher).Publish(podidentity.Record{
			Owner: fmt.Sprintf("%064x", i),
			Identity: podidentity.Identity{
				Name: podName(i), Namespace: env.Namespace,
				UID:    fmt.Sprintf("00000000-0000-4000-9000-%012d", i),
				Labels: map[string]string{"app": fmt.Sprintf("app-%d", i%50), "pod-template-hash": "abc123"},
			},
			Sandbox:   fmt.Sprintf("%064x", i),
			NetNS:     4026532000 + uint64(i),
			Addresses: []netip.Addr{netip.MustParseAddr(podIP(i)), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1))},
			Begin:     time.Unix(1_700_000_000, 0), // before the batches' time
		}); err != nil {
			tb.Fatal(err)
		}
	}
	return ext
}
