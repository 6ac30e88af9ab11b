// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

func TestConfigKeys(t *testing.T) {
	cfg := NewDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"auth_type": "kubeConfig", "context": "edge", "scope": "node", "node": "node-1",
	}).Unmarshal(cfg))
	assert.Equal(t, &Config{AuthType: AuthKubeConfig, Context: "edge", Scope: ScopeNode, Node: "node-1"}, cfg)
	assert.NoError(t, cfg.Validate())
}

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		want   []string // parts of the error; none: valid
	}{
		"node scope":    {func(c *Config) { c.Node = "node-1" }, nil},
		"cluster scope": {func(c *Config) { c.Scope = ScopeCluster }, nil},
		"node scope without a node": {
			func(*Config) {}, []string{"node: required", "${env:K8S_NODE_NAME}"},
		},
		"cluster scope with a node": {
			func(c *Config) { c.Scope, c.Node = ScopeCluster, "node-1" }, []string{`node: "node-1"`, `"cluster"`},
		},
		"unknown scope": {
			func(c *Config) { c.Scope = "namespace" }, []string{`scope: "namespace"`, `"node", "cluster"`},
		},
		"unknown auth_type": {
			func(c *Config) { c.AuthType, c.Node = "tls", "n" }, []string{`auth_type: "tls"`, `"serviceAccount", "kubeConfig", "none"`},
		},
		"context without kubeConfig": {
			func(c *Config) { c.Context, c.Node = "edge", "n" }, []string{`context: "edge"`, `"kubeConfig"`},
		},
		"everything at once": {
			func(c *Config) { c.AuthType, c.Scope, c.Context = "a", "b", "c" }, []string{"auth_type:", "scope:", "context:"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := NewDefaultConfig()
			tt.change(cfg)
			err := cfg.Validate()
			if tt.want == nil {
				require.NoError(t, err)
			}
			for _, w := range tt.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

func TestRestConfig(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: "https://127.0.0.1:1"}}
- {name: b, cluster: {server: "https://127.0.0.1:2"}}
contexts:
- {name: a, context: {cluster: a}}
- {name: b, context: {cluster: b}}
current-context: a
`), 0o600))

	t.Run("kubeConfig", func(t *testing.T) {
		t.Setenv("KUBECONFIG", kubeconfig)
		rc, err := restConfig(&Config{AuthType: AuthKubeConfig})
		require.NoError(t, err)
		assert.Equal(t, "https://127.0.0.1:1", rc.Host)
		rc, err = restConfig(&Config{AuthType: AuthKubeConfig, Context: "b"})
		require.NoError(t, err)
		assert.Equal(t, "https://127.0.0.1:2", rc.Host)
		_, err = restConfig(&Config{AuthType: AuthKubeConfig, Context: "c"})
		require.ErrorContains(t, err, `"c"`)
	})
	t.Run("kubeConfig without a file", func(t *testing.T) {
		t.Setenv("KUBECONFIG", kubeconfig+".absent")
		_, err := restConfig(&Config{AuthType: AuthKubeConfig})
		require.ErrorContains(t, err, "KUBECONFIG")
	})
	t.Run("serviceAccount outside of a pod", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		_, err := restConfig(&Config{AuthType: AuthServiceAccount})
		require.ErrorContains(t, err, "service account")
		require.ErrorContains(t, err, "kubeConfig")
	})
	t.Run("none", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
		t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
		rc, err := restConfig(&Config{AuthType: AuthNone})
		require.NoError(t, err)
		assert.Equal(t, "https://[fd00::1]:6443", rc.Host)
		assert.True(t, rc.Insecure)
	})
	t.Run("none without an address", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		_, err := restConfig(&Config{AuthType: AuthNone})
		require.ErrorContains(t, err, "KUBERNETES_SERVICE_HOST")
	})
}
