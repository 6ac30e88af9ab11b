// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestDashboardsSchema decodes the shipped dashboards by Grafana's own schema,
// unknown keys refused, and looks at what the schema leaves open.
func TestDashboardsSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	uids := map[string]string{}
	for _, path := range glob(t, "../../distribution/dashboards/*.json") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			var schema dashboard.Dashboard //lint:ignore SA1019 the classic schema is what files are provisioned and imported in
			for _, err := range []error{schema.UnmarshalJSONStrict(b), schema.Validate()} {
				// Grafana's decoder returns an empty list of errors where it has none.
				if list := (cog.BuildErrors)(nil); !errors.As(err, &list) || len(list) > 0 {
					require.NoError(t, err)
				}
			}

			d := readDashboard(t, path)
			require.NotEmpty(t, d.UID)
			require.Empty(t, uids[d.UID], "a uid that is another dashboard's")
			uids[d.UID] = path
			ids := map[int]bool{}
			var placed []gridPos
			for _, p := range d.Panels {
				assert.False(t, ids[p.ID], "%s: id %d is there twice", p.Title, p.ID)
				ids[p.ID] = true
				assert.NotEmpty(t, p.Description, "%s has no description", p.Title)
				assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, "%s has no unit", p.Title)
				assert.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
				for _, o := range placed {
					g := p.GridPos
					assert.False(t, g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H, "%s lies over another panel", p.Title)
				}
				placed = append(placed, p.GridPos)
			}
		})
	}
}

// TestDashboards runs every query of the shipped dashboards, those of their
// variables, and every alert's expression in a real Prometheus that scrapes a
// collector with something of everything to show: each must return data.
func TestDashboards(t *testing.T) {
	b := newBed(t, "2.2")
	prometheus := b.startEverything(t)

	testkit.Eventually(t, patience, "drops and resets are counted", func() error {
		for _, metric := range []string{"k8s_pod_network_packet_dropped_total", `k8s_pod_network_tcp_connection_events_total{event="reset"}`} {
			if got := prometheus.Query(t, fmt.Sprintf(`sum(rate(%s[10s])) > 1`, metric)); len(got) == 0 {
				return fmt.Errorf("no rate of %s", metric)
			}
		}
		return nil
	})
	t.Run("a metric that does not exist is noticed", func(t *testing.T) {
		require.Error(t, prometheus.returnsData(t, `sum(rate(k8s_pod_network_io_total[10s]))`))
		require.Error(t, prometheus.returnsData(t, `0 / sum(k8s_pod_network_errors_total)`), "NaN")
	})

	for _, path := range glob(t, "../../distribution/dashboards/*.json") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			d := readDashboard(t, path)
			for _, v := range d.Templating.List {
				if v.Type != "query" {
					continue
				}
				var query struct{ Query string }
				require.NoError(t, json.Unmarshal(v.Query, &query))
				require.Equal(t, query.Query, v.Definition, "variable %s", v.Name)
				t.Run("variable "+v.Name, func(t *testing.T) {
					testkit.Eventually(t, patience, v.Definition, func() error {
						values, err := prometheus.labelValues(t, substitute(t, v.Definition, linuxPod))
						if err == nil && !slices.Contains(values, linuxPod[v.Name]) {
							err = fmt.Errorf("%v lack %q", values, linuxPod[v.Name])
						}
						return err
					})
				})
			}
			for _, panel := range d.Panels {
				t.Run(panel.Title, func(t *testing.T) {
					require.NotEmpty(t, panel.Targets)
					for _, target := range panel.Targets {
						values := linuxPod
						if strings.Contains(target.Expr, "k8s_pod_network_tcp_packet_count_total") { // VFP's
							values = windowsPod
						}
						chosen := substitute(t, target.Expr, values)
						everything := substitute(t, several.ReplaceAllString(target.Expr, `=~".*"`), values) // "All"
						for _, expr := range slices.Compact([]string{chosen, everything}) {
							testkit.Eventually(t, patience, expr, func() error { return prometheus.returnsData(t, expr) })
						}
					}
				})
			}
		})
	}
	for _, path := range glob(t, "../../distribution/alerts/*.yaml") {
		for _, rule := range readRules(t, path) {
			t.Run(rule.Alert, func(t *testing.T) {
				testkit.Eventually(t, patience, rule.Expr, func() error { return prometheus.returnsData(t, rule.Expr) })
			})
		}
	}
}

// What a reader would choose in Grafana.
var (
	linuxPod = map[string]string{
		"node": "localhost:8889", "collector": "localhost:8888", "namespace": "shop", "pod": "web-0",
		"__rate_interval": "10s", "__range": "1m",
	}
	windowsPod = map[string]string{"node": "localhost:8889", "namespace": "windows", "pod": "win-0", "__rate_interval": "10s", "__range": "1m"}
)

// several is a matcher of a variable that may have several values.
var several = regexp.MustCompile(`=~"\$\w+"`)

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

// substitute puts values in the places of Grafana's variables.
func substitute(t *testing.T, expr string, values map[string]string) string {
	t.Helper()
	return variable.ReplaceAllStringFunc(expr, func(v string) string {
		value, ok := values[variable.FindStringSubmatch(v)[1]]
		require.True(t, ok, "variable %s in %s", v, expr)
		return value
	})
}

// returnsData says why an expression shows nothing now.
func (p *prometheus) returnsData(t *testing.T, expr string) error {
	samples := p.Query(t, expr)
	if len(samples) == 0 {
		return fmt.Errorf("no data")
	}
	for _, s := range samples {
		if v := s.Values[0].Value; math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v of %v", v, s.Labels)
		}
	}
	return nil
}

var labelValuesCall = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// labelValues asks what Grafana asks for label_values(selector, label).
func (p *prometheus) labelValues(t *testing.T, call string) ([]string, error) {
	t.Helper()
	m := labelValuesCall.FindStringSubmatch(call)
	require.NotNil(t, m, "not label_values(selector, label): %s", call)
	body, err := p.Get(t, "/api/v1/label/"+m[2]+"/values?match[]="+url.QueryEscape(m[1]))
	if err != nil {
		return nil, err
	}
	var answer struct{ Data []string }
	err = json.Unmarshal(body, &answer)
	return answer.Data, err
}

// grafanaDashboard is what the tests look at of a dashboard.
type grafanaDashboard struct {
	UID        string
	Templating struct {
		List []struct {
			Type, Name, Definition string
			Query                  json.RawMessage
		}
	}
	Panels []struct {
		ID                 int
		Title, Description string
		GridPos            gridPos
		Datasource         struct{ UID string }
		FieldConfig        struct{ Defaults struct{ Unit string } }
		Targets            []struct{ Expr string }
	}
}

type gridPos struct{ X, Y, W, H int }

func readDashboard(t *testing.T, path string) (d grafanaDashboard) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

type alertRule struct{ Alert, Expr string }

func readRules(t *testing.T, path string) (rules []alertRule) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []alertRule } }
	require.NoError(t, yaml.Unmarshal(b, &file))
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	require.NotEmpty(t, rules)
	return rules
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	return paths
}
