// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"fmt"
	"net/netip"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"

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

// mapResolver stands in for the podidentity extension.
type mapResolver struct {
	component.StartFunc
	component.ShutdownFunc
	byAddr map[netip.Addr]*podidentity.Identity
	ready  chan struct{}
}

func (m *mapResolver) Resolve(q podidentity.Query) (*podidentity.Identity, podidentity.Outcome) {
	if id, ok := m.byAddr[q.Address]; ok {
		return id, podidentity.Found
	}
	return nil, podidentity.Unknown
}

func (m *mapResolver) Want(_, _ []string) {}

func (m *mapResolver) Ready() <-chan struct{} { return m.ready }

func startIdentities(tb testing.TB, env Env) component.Component {
	m := &mapResolver{byAddr: map[netip.Addr]*podidentity.Identity{}, ready: make(chan struct{})}
	close(m.ready)
	for i := range env.Pods {
		m.byAddr[netip.MustParseAddr(podIP(i))] = &podidentity.Identity{
			Name: podName(i), Namespace: env.Namespace, UID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i),
		}
	}
	return m
}
