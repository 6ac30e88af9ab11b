// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/cri"
)

// load reads a configuration as the collector does.
func load(t *testing.T, yaml string) (*Config, error) {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := conf.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestConfig(t *testing.T) {
	cfg, err := load(t, `
sources:
  cri: {endpoint: "unix:///run/x.sock", poll_interval: 1s}
  cri/other:
precedence: [cri/other, push]
grace_period: 5s
startup_timeout: 0s
`)
	require.NoError(t, err)
	other := cri.NewDefaultConfig()
	require.Equal(t, &Config{
		Sources: map[component.ID]component.Config{
			component.MustNewID("cri"):                  &cri.Config{Endpoint: "unix:///run/x.sock", PollInterval: time.Second, Timeout: other.Timeout},
			component.MustNewIDWithName("cri", "other"): other,
		},
		Precedence:  []string{"cri/other", "push"},
		GracePeriod: 5 * time.Second,
		Page:        createDefaultConfig().(*Config).Page,
	}, cfg)
	require.False(t, cfg.Page.HasValue())

	cfg, err = load(t, "{}")
	require.NoError(t, err)
	require.Equal(t, createDefaultConfig(), cfg)
}

func TestConfigOfStorageAndPage(t *testing.T) {
	for yaml, endpoint := range map[string]string{
		"page:":                             "localhost:8899",
		"page: {}":                          "localhost:8899",
		"page: {endpoint: '0.0.0.0:80'}":    "0.0.0.0:80",
		"page: {read_timeout: 1s}":          "localhost:8899",
		"{storage: file_storage/x, page: }": "localhost:8899",
		"page: {enabled: false}":            "",
		"storage: file_storage/x":           "",
	} {
		cfg, err := load(t, yaml)
		require.NoError(t, err, yaml)
		if endpoint == "" {
			require.False(t, cfg.Page.HasValue(), yaml)
		} else {
			require.Equal(t, endpoint, cfg.Page.Get().ServerConfig.NetAddr.Endpoint, yaml)
		}
	}
	cfg, err := load(t, "storage: file_storage/x")
	require.NoError(t, err)
	require.Equal(t, component.MustNewIDWithName("file_storage", "x"), cfg.Storage)
}

func TestBadConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		yaml string
		says []string
	}{
		"unknown type":          {"sources: {crio: {}}", []string{`sources: "crio": unknown type "crio"`, "allowed are: cri, "}},
		"push needs no entry":   {"sources: {push: {}}", []string{`sources: "push": unknown type "push"`}},
		"no type":               {`sources: {"/x": {}}`, []string{`sources: "/x"`, "want a type (cri, "}},
		"sources is a list":     {"sources: [cri]", []string{"sources: want a map", "[cri]"}},
		"a source is a word":    {"sources: {cri: on}", []string{`sources: "cri": want a map of its settings, have on`}},
		"unknown key":           {"sorces: {}", []string{"unknown key: sorces"}},
		"unknown keys":          {"{sorces: {}, grace: 1s}", []string{"unknown key: grace, sorces"}},
		"unknown source key":    {"sources: {cri: {socket: x}}", []string{`sources: "cri": unknown key: socket`}},
		"unknown page TLS key":  {"page: {tls: {fil: x}}", []string{"'page'", "tls: unknown key: fil"}},
		"page without port":     {"page: {endpoint: localhost}", []string{`page: endpoint: "localhost": must be host:port, such as localhost:8899`}},
		"page without a number": {"page: {endpoint: 'localhost:'}", []string{`page: endpoint: "localhost:": must be host:port`}},
		"page with a bad port":  {"page: {endpoint: '[::1]:99999'}", []string{`page: endpoint: "[::1]:99999": must be host:port`}},
		"endpoint":              {"sources: {cri: {endpoint: containerd}}", []string{"sources::cri: endpoint", `"containerd" is no URL; want unix:///path/of/the.sock`}},
		"negative interval":     {"sources: {cri/x: {poll_interval: -1s}}", []string{"sources::cri/x: poll_interval: -1s: must be more than 0s"}},
		"negative grace":        {"grace_period: -1s", []string{"grace_period: -1s: must be 0s or more"}},
		"negative startup":      {"startup_timeout: -2s", []string{"startup_timeout: -2s: must be 0s (do not wait) or more"}},
		"no duration":           {"grace_period: soon", []string{"grace_period", "invalid duration"}},
		"page without endpoint": {"page: {endpoint: ''}", []string{"page: endpoint: must be an address to listen on, such as localhost:8899"}},
		"unknown page key":      {"page: {adress: x}", []string{"'page'", "unknown key: adress"}},
		"page is a word":        {"page: on", []string{"page"}},
		"storage is no id":      {"storage: /x", []string{"storage"}},
		"precedence names nobody": {"{sources: {cri: {}}, precedence: [cri, k8s]}",
			[]string{`precedence: "k8s": names no source; allowed are: push, cri`}},
		"precedence names one twice": {"{sources: {cri: {}}, precedence: [cri, push, cri]}", []string{`precedence: "cri": named twice`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.yaml)
			require.Error(t, err)
			for _, s := range tt.says {
				require.ErrorContains(t, err, s)
			}
			require.NotRegexp(t, `\w\.(plain|strict|[A-Z]\w*Config)`, err.Error(), "the name of a Go type")
		})
	}
}

func TestOrder(t *testing.T) {
	sources := map[component.ID]component.Config{
		component.MustNewID("statefile"):              nil,
		component.MustNewIDWithName("statefile", "a"): nil,
		component.MustNewID("k8s"):                    nil,
		component.MustNewID("cri"):                    nil,
		component.MustNewID("another"):                nil,
	}
	require.Equal(t, []string{"push", "cri", "k8s", "statefile", "statefile/a", "another"}, (&Config{Sources: sources}).order())
	require.Equal(t, []string{"statefile/a", "k8s", "push", "cri", "statefile", "another"},
		(&Config{Sources: sources, Precedence: []string{"statefile/a", "k8s"}}).order())
	require.Equal(t, []string{"push"}, (&Config{}).order())
}
