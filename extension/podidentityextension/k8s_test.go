// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/k8s"
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
