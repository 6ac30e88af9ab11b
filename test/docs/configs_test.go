// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestConfigurations checks every yaml block by what would read it.
func TestConfigurations(t *testing.T) {
	for _, b := range blocks(t, "yaml") {
		t.Run(b.String(), func(t *testing.T) {
			is, of, _ := strings.Cut(b.is, " ")
			switch is {
			case "", "over", "under", "complete":
				checkCollector(t, b, is, of)
			case "list":
				checkList(t, b)
			case "prometheus":
				run(t, "promtool", "check", "config", "--syntax-only", file(t, "prometheus.yml", b.text))
			case "scrape":
				checkScrape(t, b)
			case "pod":
				strict(t, b, &corev1.Pod{})
			case "container":
				strict(t, b, &corev1.Container{})
			case "ocb":
				checkBuilder(t, b, of)
			case "values", "kustomization":
				t.Log("test/packages renders it")
			default:
				t.Fatalf("docs-test: %s: not a kind that the test knows", b.is)
			}
		})
	}
}

// checkCollector has the collector validate a configuration: by itself when it
// has pipelines of its own receivers, else over a shipped one.
func checkCollector(t *testing.T, b block, is, of string) {
	t.Helper()
	text := b.text
	if is == "under" {
		kind, id, _ := strings.Cut(of, "/")
		text = kind + ":\n  " + id + ":\n    " + strings.ReplaceAll(text, "\n", "\n    ")
	}
	var config struct {
		Receivers any
		Service   struct{ Pipelines map[string]any }
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	var args []string
	if is != "complete" && (config.Receivers == nil || config.Service.Pipelines == nil) {
		base := "default.yaml"
		if is == "over" {
			base = of
		}
		args = append(args, "--config", filepath.Join(root, "distribution/config", base))
	}
	args = append(args, "--config", file(t, "config.yaml", text))
	run(t, testkit.Collector(t, root), append([]string{"validate"}, args...)...)
	printed := run(t, testkit.Collector(t, root), append([]string{"print-config", "--format=json"}, args...)...)
	if err := testkit.CheckPages([]byte(printed)); err != nil {
		t.Error(err)
	}
}

// checkScrape has the collector's receiver read a configuration of Prometheus.
func checkScrape(t *testing.T, b block) {
	t.Helper()
	run(t, testkit.Collector(t, root), "validate", "--config", file(t, "scrape.yaml", `
exporters: {debug: {}}
service: {pipelines: {metrics: {receivers: [prometheus], exporters: [debug]}}}
receivers:
  prometheus:
    config:
      `+strings.ReplaceAll(b.text, "\n", "\n      ")))
}

func strict(t *testing.T, b block, into any) {
	t.Helper()
	if err := k8syaml.UnmarshalStrict([]byte(b.text), into); err != nil {
		t.Error(err)
	}
}

// ours is this project's module.
const ours = "github.com/otelcol-retina/otelcol-retina"

// checkBuilder has the builder resolve a build with our module taken from here:
// a configuration, or entries of a list. Entries of contrib's modules are for the
// distribution and go into its own configuration; ours are for anybody's. It does
// not compile: test/e2e's TestAlone does, for each component.
func checkBuilder(t *testing.T, b block, list string) {
	t.Helper()
	read := func(text []byte, into any) {
		t.Helper()
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	config := map[string]any{}
	switch {
	case list == "":
		read([]byte(b.text), &config)
	case strings.Contains(b.text, ours):
		read([]byte(b.text), &config)
		config["providers"] = []any{map[string]string{"gomod": "go.opentelemetry.io/collector/confmap/provider/fileprovider v1.67.0"}}
	default:
		text, err := os.ReadFile(filepath.Join(root, "builder-config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		read([]byte(strings.ReplaceAll(string(text), "path: .\n", "path: "+root+"\n")), &config)
		var entries []any
		read([]byte(b.text), &entries)
		config[list] = append(config[list].([]any), entries...)
	}
	dist, _ := config["dist"].(map[string]any)
	if dist == nil {
		dist = map[string]any{"name": "otelcol-docs", "module": "example.com/otelcol-docs"}
	}
	dist["output_path"] = t.TempDir()
	config["dist"] = dist
	if strings.Contains(b.text, ours) {
		config["replaces"] = []string{ours + " => " + root}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	builder := os.Getenv("OCB")
	if builder == "" {
		builder = filepath.Join(root, "bin/tools/builder")
	}
	run(t, builder, "--skip-compilation", "--config", file(t, "builder.yaml", string(text)))
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run returns what a program prints on its standard output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	// What the configurations take from the environment.
	cmd.Env = append(os.Environ(), environment...)
	out, problems := &strings.Builder{}, &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, problems
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, problems)
	}
	return out.String()
}

// environment is what the configurations take from it, with values of the right
// form that lead nowhere.
var environment = []string{
	"K8S_NODE_NAME=node-1",
	"KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443",
	"AZURE_TENANT_ID=00000000-0000-0000-0000-000000000001", "AZURE_CLIENT_ID=00000000-0000-0000-0000-000000000002",
	"AZURE_CLIENT_SECRET=secret", "DCR_METRICS_ENDPOINT=https://127.0.0.1:1/dcr",
	"APPLICATIONINSIGHTS_CONNECTION_STRING=InstrumentationKey=00000000-0000-0000-0000-000000000003;IngestionEndpoint=https://127.0.0.1:1/",
}
