// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/k8s"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestK8sSourceIsConfiguredUnderSources(t *testing.T) {
	cfg := createDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"grace_period": "5s",
		"sources": map[string]any{
			"k8s":         map[string]any{"node": "node-1"},
			"k8s/cluster": map[string]any{"auth_type": "kubeConfig", "scope": "cluster"},
		},
	}).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	sources := cfg.(*Config).Sources
	assert.Equal(t, &k8s.Config{AuthType: k8s.AuthServiceAccount, Scope: k8s.ScopeNode, Node: "node-1"},
		sources[component.MustNewID("k8s")])
	assert.Equal(t, &k8s.Config{AuthType: k8s.AuthKubeConfig, Scope: k8s.ScopeCluster},
		sources[component.MustNewIDWithName("k8s", "cluster")])

	cfg = createDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"sources": map[string]any{"k8s": map[string]any{"scope": "everything"}},
	}).Unmarshal(cfg))
	require.ErrorContains(t, confmap.Validate(cfg), `scope: "everything" is not one of "node", "cluster"`)
}

// A label that is changed while the pod runs reaches the data, whatever copy of it
// the runtime has.
func TestLabelsAreOfK8sWhereItKnowsThePod(t *testing.T) {
	cfg := createDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"sources": map[string]any{"cri": map[string]any{}, "k8s": map[string]any{"auth_type": "none"}},
	}).Unmarshal(cfg))
	e, err := newExtension(cfg.(*Config), componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.Background())) })
	for _, f := range e.sources {
		f.Put(podidentity.Record{Owner: "u1", Identity: podidentity.Identity{
			Name: "web-0", Namespace: "shop", UID: "u1", Labels: map[string]string{"of": f.name},
		}})
	}
	id, outcome := e.Resolve(podidentity.Query{UID: "u1"})
	require.Equal(t, podidentity.Found, outcome)
	assert.Equal(t, map[string]string{"of": "k8s"}, id.Labels)
}
