// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-retina/otelcol-retina/internal/kubeapi"
)

func TestLoadConfig(t *testing.T) {
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for name, want := range map[string]*Config{
		"workloadnet": {
			Endpoint: defaultEndpoint, CoolDown: time.Minute, K8s: configoptional.Default(K8sConfig{AuthType: kubeapi.AuthServiceAccount}),
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/24"), netip.MustParsePrefix("fd00:88::/64")},
			Identity: component.MustNewID("podidentity"), Storage: component.MustNewID("file_storage"),
		},
		"workloadnet/k8s": {
			Endpoint: defaultEndpoint, CoolDown: time.Minute,
			K8s:      configoptional.Some(K8sConfig{AuthType: kubeapi.AuthServiceAccount, Node: "node-1"}),
			Identity: component.MustNewID("podidentity"), Storage: component.MustNewID("file_storage"),
		},
		"workloadnet/all": {
			Endpoint: "unix:///run/wn/s.sock", CoolDown: 5 * time.Second, K8s: configoptional.Default(K8sConfig{AuthType: kubeapi.AuthServiceAccount}),
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			Identity: component.MustNewIDWithName("podidentity", "mine"), Storage: component.MustNewIDWithName("file_storage", "net"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			sub, err := conf.Sub(name)
			require.NoError(t, err)
			cfg := createDefaultConfig()
			require.NoError(t, sub.Unmarshal(cfg))
			require.NoError(t, confmap.Validate(cfg))
			assert.Equal(t, want, cfg)
		})
	}
	t.Run("workloadnet/bad_prefix", func(t *testing.T) {
		sub, err := conf.Sub("workloadnet/bad_prefix")
		require.NoError(t, err)
		err = sub.Unmarshal(createDefaultConfig())
		assert.ErrorContains(t, err, "prefixes[0]")
		assert.ErrorContains(t, err, "10.88.0.0")
	})
}

func TestValidate(t *testing.T) {
	k8s := func(c K8sConfig) configoptional.Optional[K8sConfig] { return configoptional.Some(c) }
	prefix := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no prefix", func(c *Config) { c.Prefixes = nil }, "prefixes: must have at least one prefix"},
		{"an unset prefix", func(c *Config) { c.Prefixes = []netip.Prefix{{}} }, "prefixes: invalid Prefix: not a prefix"},
		{"bits beyond the length", func(c *Config) { c.Prefixes = prefix("10.88.0.5/24") }, "prefixes: 10.88.0.5/24: has bits beyond its length: 10.88.0.0/24?"},
		{"too small", func(c *Config) { c.Prefixes = prefix("10.88.0.0/31") }, "prefixes: 10.88.0.0/31: prefix 10.88.0.0/31 has no usable address"},
		{"too small, IPv6", func(c *Config) { c.Prefixes = prefix("fd00::/127") }, "prefixes: fd00::/127: prefix fd00::/127 has no usable address"},
		{"loopback", func(c *Config) { c.Prefixes = prefix("127.1.0.0/16") }, "prefixes: 127.1.0.0/16: must be of unicast addresses"},
		{"link-local", func(c *Config) { c.Prefixes = prefix("fe80::/64") }, "prefixes: fe80::/64: must be of unicast addresses"},
		{"multicast", func(c *Config) { c.Prefixes = prefix("224.0.0.0/24") }, "prefixes: 224.0.0.0/24: must be of unicast addresses"},
		{"IPv4 in IPv6", func(c *Config) { c.Prefixes = prefix("::ffff:10.0.0.0/120") }, "must be written as IPv4"},
		{"overlap", func(c *Config) { c.Prefixes = append(prefix("10.0.0.0/8"), prefix("10.88.0.0/24")...) }, "prefixes: 10.88.0.0/24 overlaps 10.0.0.0/8"},
		{"prefixes and k8s", func(c *Config) { c.K8s = k8s(K8sConfig{AuthType: "serviceAccount", Node: "n"}) }, "prefixes: must not be set together with k8s"},
		{"k8s without a node", func(c *Config) { c.Prefixes, c.K8s = nil, k8s(K8sConfig{AuthType: "serviceAccount"}) }, "k8s: node: required"},
		{"k8s with an unknown auth_type", func(c *Config) { c.Prefixes, c.K8s = nil, k8s(K8sConfig{AuthType: "x", Node: "n"}) }, `k8s: auth_type: "x" is not one of`},
		{"no scheme", func(c *Config) { c.Endpoint = "/run/wn.sock" }, `endpoint: "/run/wn.sock": must be unix:// and the absolute path of a socket`},
		{"another scheme", func(c *Config) { c.Endpoint = "tcp://localhost:80" }, `endpoint: "tcp://localhost:80": must be unix://`},
		{"a relative path", func(c *Config) { c.Endpoint = "unix://run/wn.sock" }, `endpoint: "unix://run/wn.sock": must be unix://`},
		{"a path that is too long", func(c *Config) { c.Endpoint = "unix:///" + strings.Repeat("a", 107) }, "the path has 108 bytes, a socket's can have 107"},
		{"a negative cool-down", func(c *Config) { c.CoolDown = -time.Second }, "cool_down: -1s: must be 0s or more"},
		{"no identity", func(c *Config) { c.Identity = component.ID{} }, "identity: must name a podidentity extension"},
		{"no storage", func(c *Config) { c.Storage = component.ID{} }, "storage: must name a storage extension"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.Prefixes = prefix("10.88.0.0/24")
			cfg.Storage = component.MustNewID("file_storage")
			require.NoError(t, confmap.Validate(cfg))
			tt.change(cfg)
			assert.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}
