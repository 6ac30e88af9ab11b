// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
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
		Name:   "podenrich with peers",
		Shapes: []Shape{OnPoint},
		Start: func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			return startPodenrich(tb, env, next, map[string]any{
				"peers": []any{map[string]any{"address": "k8s.pod.ip", "prefix": ""}},
			})
		},
	})
}

type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

// startPodenrich starts the real processor and extension in the order in which
// a Collector does, and returns when the extension knows the pods.
func startPodenrich(tb testing.TB, env Env, next consumer.Metrics, override map[string]any) consumer.Metrics {
	identities := createPodidentity(tb, env)
	if err := identities.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = identities.Shutdown(context.Background()) })
	cfg := map[string]any{"identity": "podidentity"}
	for k, v := range override {
		cfg[k] = v
	}
	p := startProcessor(tb, podenrichprocessor.NewFactory(), env, host{component.MustNewID("podidentity"): identities}, next, cfg)
	if err := identities.(extensioncapabilities.PipelineWatcher).Ready(); err != nil {
		tb.Fatal(err)
	}
	<-identities.(podidentity.Resolver).Synced()
	return p
}

// createPodidentity gives the extension the same API that the peer gets.
func createPodidentity(tb testing.TB, env Env) extension.Extension {
	f := podidentityextension.NewFactory()
	cfg := f.CreateDefaultConfig()
	conf := confmap.NewFromStringMap(map[string]any{
		"startup_timeout": "60s",
		"sources":         map[string]any{"k8s": map[string]any{"auth_type": "kubeConfig", "node": env.Namespace}},
	})
	if err := conf.Unmarshal(cfg); err != nil {
		tb.Fatal(err)
	}
	if err := confmap.Validate(cfg); err != nil {
		tb.Fatal(err)
	}
	set := extensiontest.NewNopSettings(f.Type())
	set.TelemetrySettings = env.Telemetry
	ext, err := f.Create(context.Background(), set, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return ext
}
