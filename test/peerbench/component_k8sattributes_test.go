// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/groupbyattrsprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/k8sattributesprocessor"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
)

func init() {
	register(Component{
		Name:             "k8sattributes",
		Shapes:           []Shape{OnResource},
		EnrichesResource: true,
		Start: func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			return startK8sAttributes(tb, env, next, nil)
		},
	})
	// With points of many pods under one resource the peer needs
	// groupbyattrs before it, which makes one resource per pod.
	register(Component{
		Name:             "groupbyattrs+k8sattributes",
		Shapes:           []Shape{OnPoint},
		EnrichesResource: true,
		Start: func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			k := startK8sAttributes(tb, env, next, nil)
			return startProcessor(tb, groupbyattrsprocessor.NewFactory(), env, componenttest.NewNopHost(), k, map[string]any{"keys": []any{"k8s.pod.ip"}})
		},
	})
}

// startK8sAttributes starts the real processor through its public factory.
func startK8sAttributes(tb testing.TB, env Env, next consumer.Metrics, override map[string]any) consumer.Metrics {
	cfg := map[string]any{
		"auth_type":                 "kubeConfig",
		"wait_for_metadata":         true,
		"wait_for_metadata_timeout": "60s",
		"filter":                    map[string]any{"namespace": env.Namespace},
		"extract":                   map[string]any{"metadata": []any{"k8s.pod.name", "k8s.namespace.name", "k8s.pod.uid"}},
		"pod_association": []any{map[string]any{"sources": []any{
			map[string]any{"from": "resource_attribute", "name": "k8s.pod.ip"},
		}}},
	}
	for k, v := range override {
		if v == nil {
			delete(cfg, k)
			continue
		}
		cfg[k] = v
	}
	return startProcessor(tb, k8sattributesprocessor.NewFactory(), env, componenttest.NewNopHost(), next, cfg)
}

// startProcessor starts any processor through its public factory.
func startProcessor(tb testing.TB, f processor.Factory, env Env, h component.Host, next consumer.Metrics, conf map[string]any) consumer.Metrics {
	cfg := f.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(conf).Unmarshal(cfg); err != nil {
		tb.Fatal(err)
	}
	if v, ok := cfg.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			tb.Fatal(err)
		}
	}
	set := processortest.NewNopSettings(f.Type())
	set.TelemetrySettings = env.Telemetry
	p, err := f.CreateMetrics(context.Background(), set, cfg, next)
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Start(context.Background(), h); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}
