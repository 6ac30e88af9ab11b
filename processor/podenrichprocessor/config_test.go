// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func TestLoadConfig(t *testing.T) {
	for id, want := range map[string]*Config{
		"podenrich": {
			Identity:  component.MustNewID("podidentity"),
			OnUnready: UnreadyPass,
		},
		"podenrich/all": {
			Identity:    component.MustNewIDWithName("podidentity", "node"),
			Labels:      []string{"app", "app.kubernetes.io/name"},
			Annotations: []string{"team"},
			KeepKeys:    true,
			OnUnready:   UnreadyHold,
			Overwrite:   true,
			Peers: []PeerConfig{
				{Address: "source.address", Prefix: "source."},
				{Address: "destination.address", Prefix: "destination."},
			},
			Associations: []AssociationConfig{
				{Sources: []SourceConfig{{From: "resource_attribute", Name: "container.id"}, {From: "resource_attribute", Name: "k8s.pod.ip"}}},
				{Sources: []SourceConfig{{From: "connection"}}},
			},
		},
	} {
		t.Run(id, func(t *testing.T) {
			all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
			require.NoError(t, err)
			sub, err := all.Sub(id)
			require.NoError(t, err)
			cfg := createDefaultConfig()
			require.NoError(t, sub.Unmarshal(cfg))
			require.NoError(t, confmap.Validate(cfg))
			assert.Equal(t, want, cfg)
		})
	}
}

// Each error names the key, the value and what is allowed.
func TestBadConfig(t *testing.T) {
	identity := func(more map[string]any) map[string]any {
		conf := map[string]any{"identity": "podidentity"}
		for k, v := range more {
			conf[k] = v
		}
		return conf
	}
	association := func(sources ...any) map[string]any {
		return identity(map[string]any{"associations": []any{map[string]any{"sources": sources}}})
	}
	for _, tc := range []struct {
		name string
		conf map[string]any
		want string
	}{
		{"no identity", nil,
			"identity: is required: the ID of a podidentity extension, such as podidentity or podidentity/name"},
		{"on_unready that is none", identity(map[string]any{"on_unready": "wait"}),
			`on_unready: "wait" is not one of pass, drop, hold`},
		{"empty label", identity(map[string]any{"labels": []any{"app", " "}}),
			`labels[1]: " " is not the key of one of a pod's labels`},
		{"label twice", identity(map[string]any{"labels": []any{"app", "app"}}),
			`labels[1]: "app" is listed twice`},
		{"empty annotation", identity(map[string]any{"annotations": []any{""}}),
			`annotations[0]: "" is not the key of one of a pod's annotations`},
		{"peer without an address", identity(map[string]any{"peers": []any{map[string]any{"prefix": "source."}}}),
			`peers[0].address: "" is not the name of an attribute`},
		{"peers that would write the same attributes", identity(map[string]any{"peers": []any{
			map[string]any{"address": "a", "prefix": "p."}, map[string]any{"address": "b", "prefix": "p."}}}),
			`peers[1].prefix: "p." is another peer's as well: each one needs its own`},
		{"association without sources", association(),
			"associations[0]: sources: is empty: give at least one {from: resource_attribute, name: …} or {from: connection}"},
		{"source from nowhere", association(map[string]any{"from": "build_hostname"}),
			`associations[0]: sources[0].from: "build_hostname" is not one of resource_attribute, connection`},
		{"attribute without a name", association(map[string]any{"from": "resource_attribute"}),
			"associations[0]: sources[0].name: is required: the name of a resource attribute"},
		{"connection with a name", association(map[string]any{"from": "connection", "name": "k8s.pod.ip"}),
			`associations[0]: sources[0].name: "k8s.pod.ip": a connection has no name`},
		{"names find no pod", association(map[string]any{"from": "resource_attribute", "name": "k8s.pod.name"}),
			`associations[0]: sources[0].name: "k8s.pod.name" names a pod and can't find it: use an address, k8s.pod.uid, container.id, hns.endpoint.id or linux.netns.inode`},
		{"two addresses in one association", association(map[string]any{"from": "resource_attribute", "name": "k8s.pod.ip"}, map[string]any{"from": "connection"}),
			"associations[0]: sources[1]: is a second address: one association takes one of each key; to try one after the other, make two associations"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := createDefaultConfig()
			require.NoError(t, confmap.NewFromStringMap(tc.conf).Unmarshal(cfg))
			require.EqualError(t, confmap.Validate(cfg), tc.want)
		})
	}
}

func TestIdentityThatCannotBeAsked(t *testing.T) {
	resolver, second := newFake(), newFake()
	other := component.MustNewID("zpages")
	for _, tc := range []struct {
		name string
		host host
		want string
	}{
		{"absent, nothing to take instead", host{other: notResolver{}},
			`identity: there is no extension "podidentity" under service::extensions; allowed here: none (add a podidentity extension, and list it under service::extensions)`},
		{"absent, others to take", host{component.MustNewIDWithName("podidentity", "b"): resolver, component.MustNewIDWithName("podidentity", "a"): second},
			`identity: there is no extension "podidentity" under service::extensions; allowed here: podidentity/a, podidentity/b`},
		{"no resolver", host{identityID: notResolver{}, component.MustNewIDWithName("podidentity", "a"): second},
			`identity: extension "podidentity" is not a podidentity extension; allowed here: podidentity/a`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newBareEnricher(t, newConfig(nil))
			require.EqualError(t, e.start(t.Context(), tc.host), tc.want)
		})
	}
}
