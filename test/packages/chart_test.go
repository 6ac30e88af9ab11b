// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

var chartDir = filepath.Join(repository, "distribution/helm/otelcol-retina")

type values = map[string]any

// render is `helm template retina … --namespace monitoring`.
func render(user values) ([]*unstructured.Unstructured, error) {
	c, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "retina", Namespace: "monitoring", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, user, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(files[name]), 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(&o.Object); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(o.Object) > 0 {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

func rendered(t *testing.T, user values) []*unstructured.Unstructured {
	t.Helper()
	objects, err := render(user)
	require.NoError(t, err)
	return objects
}

func TestChartLint(t *testing.T) {
	result := lint.All(chartDir, values{"windows": values{"enabled": true}, "podMonitor": values{"enabled": true}}, "monitoring", true)
	for _, m := range result.Messages {
		if m.Severity > support.InfoSev { // an icon is recommended
			assert.Fail(t, m.Error())
		}
	}
	require.NotEmpty(t, result.Messages, "the icon that is missing shows that it was looked at")
}

func TestChart(t *testing.T) {
	server := startAPIServer(t)
	require.NoError(t, server.apply(t, &unstructured.Unstructured{Object: values{
		"apiVersion": "v1", "kind": "Namespace", "metadata": values{"name": "monitoring"}}}))
	for name, test := range map[string]struct {
		user values
		want []string // kinds
	}{
		"defaults": {nil, []string{"ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "PriorityClass", "ServiceAccount"}},
		"without the API server": {values{"sources": values{"k8s": false}},
			[]string{"ConfigMap", "DaemonSet", "PriorityClass", "ServiceAccount"}},
		"without the runtime": {values{"sources": values{"cri": false}},
			[]string{"ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "PriorityClass", "ServiceAccount"}},
		"Windows": {values{"windows": values{"enabled": true}},
			[]string{"ClusterRole", "ClusterRoleBinding", "ConfigMap", "ConfigMap", "DaemonSet", "DaemonSet", "PriorityClass", "ServiceAccount", "ServiceAccount"}},
		"everything set": {values{
			"image":            values{"repository": "registry.example/retina", "tag": "1", "pullPolicy": "Always"},
			"imagePullSecrets": []any{values{"name": "s"}},
			"runtimeSocket":    "/run/crio/crio.sock",
			"config":           values{"receivers": values{"hnsstats": values{"collection_interval": "30s"}}},
			"env":              []any{values{"name": "REGION", "value": "west"}},
			"envFrom":          []any{values{"secretRef": values{"name": "s"}}},
			"resources":        values{"limits": values{"memory": "500Mi"}},
			"nodeSelector":     values{"pool": "a"},
			"tolerations":      []any{},
			"podAnnotations":   values{"a": "b"},
		}, []string{"ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "PriorityClass", "ServiceAccount"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, test.user)
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind())
			}
			slices.Sort(got)
			require.Equal(t, test.want, got)
			checkDaemonSets(t, objects)
			server.accepts(t, objects)
		})
	}
}

// The README's example is one that the collector takes.
func TestChartReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(readme), "```yaml\n")
	require.True(t, found)
	example, _, _ := strings.Cut(after, "```")
	var user values
	require.NoError(t, yaml.Unmarshal([]byte(example), &user))
	t.Setenv("K8S_NODE_NAME", "node-1")
	t.Setenv("OTLP_TOKEN", "secret")
	for _, o := range rendered(t, user) {
		if o.GetKind() == "ConfigMap" {
			validate(t, o)
			return
		}
	}
	require.Fail(t, "no ConfigMap")
}

// What is set arrives where it belongs.
func TestChartValues(t *testing.T) {
	text := func(user values) string {
		b := &bytes.Buffer{}
		for _, o := range rendered(t, user) {
			y, err := yaml.Marshal(o.Object)
			require.NoError(t, err)
			b.Write(y)
		}
		return b.String()
	}
	crio := text(values{"runtimeSocket": "/run/crio/crio.sock"})
	assert.Contains(t, crio, "value: unix:///run/crio/crio.sock")
	assert.Contains(t, crio, "path: /run/crio\n")
	assert.NotContains(t, crio, "/run/containerd")

	base := text(nil)
	changed := text(values{"config": values{"receivers": values{"hnsstats": values{"collection_interval": "30s"}}}})
	assert.Contains(t, changed, "collection_interval: 30s")
	checksum := func(s string) string {
		_, after, _ := strings.Cut(s, "checksum/config: ")
		return after[:64]
	}
	assert.NotEqual(t, checksum(base), checksum(changed), "or the pods would go on with the old one")

	for memory, want := range map[any]string{"300Mi": "240MiB", "1.5Gi": "1228MiB", "500M": "381MiB", "1G": "762MiB", 400000000: "", nil: ""} {
		got := text(values{"resources": values{"limits": values{"memory": memory}}})
		if want == "" {
			assert.NotContains(t, got, "GOMEMLIMIT", memory)
		} else {
			assert.Contains(t, got, "value: "+want+"\n", memory)
		}
	}

	assert.Contains(t, base, "automountServiceAccountToken: true")
	assert.NotContains(t, text(values{"sources": values{"k8s": false}}), "automountServiceAccountToken: true")
}

func TestChartSchema(t *testing.T) {
	for want, user := range map[string]values{
		"replicas":                {"replicas": 3},
		"/sources":                {"sources": values{"cri": false, "k8s": false}},
		"/sources/cri":            {"sources": values{"cri": "yes"}},
		"/image/pullPolicy":       {"image": values{"pullPolicy": "Sometimes"}},
		"/image/repository":       {"image": values{"repository": ""}},
		"/runtimeSocket":          {"runtimeSocket": "unix:///run/containerd/containerd.sock"},
		"/config":                 {"config": "receivers: {}"},
		"/resources":              {"resources": values{"memory": "1Gi"}},
		"/windows/enabled":        {"windows": values{"enabled": 1}},
		"/podMonitor/interval":    {"podMonitor": values{"interval": "often"}},
		"/nodeSelector/pool":      {"nodeSelector": values{"pool": 1}},
		"/podAnnotations/numbers": {"podAnnotations": values{"numbers": 1}},
	} {
		_, err := render(user)
		require.ErrorContains(t, err, "values don't meet the specifications of the schema", want)
		require.ErrorContains(t, err, strings.TrimPrefix(want, "/"))
	}
}

// The PodMonitor is one by the operator's own type, and finds the pods. No
// operator runs here, so the API server doesn't know the kind.
func TestPodMonitor(t *testing.T) {
	objects := rendered(t, values{"podMonitor": values{"enabled": true}, "windows": values{"enabled": true}})
	var monitor monitoringv1.PodMonitor
	for _, o := range objects {
		if o.GetKind() == "PodMonitor" {
			b, err := json.Marshal(o.Object)
			require.NoError(t, err)
			require.NoError(t, yaml.UnmarshalStrict(b, &monitor))
		}
	}
	var scraped []string
	for _, e := range monitor.Spec.PodMetricsEndpoints {
		scraped = append(scraped, *e.Port)
	}
	n := 0
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			n++
			got, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			for k, v := range monitor.Spec.Selector.MatchLabels {
				assert.Equal(t, v, got[k])
			}
			var open []string
			for _, p := range daemonSet(t, o).Spec.Template.Spec.Containers[0].Ports {
				open = append(open, p.Name)
			}
			assert.Equal(t, open, scraped)
		}
	}
	require.Equal(t, 2, n)
}
