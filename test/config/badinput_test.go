// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// environment is what the ready configurations take from it, per configuration.
var environment = map[string]map[string]string{
	"prometheus-remote-write.yaml": {"PROMETHEUS_REMOTE_WRITE_URL": "http://127.0.0.1:9/", "NODE_NAME": "node-1"},
	"otlp.yaml":                    {"OTLP_ENDPOINT": "127.0.0.1:9"},
	"azure-monitor.yaml":           {"APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=00000000-1111-2222-3333-444444444444"},
	"azure-managed-prometheus.yaml": {
		"DCR_METRICS_ENDPOINT": "https://127.0.0.1:9/", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s", "NODE_NAME": "node-1",
	},
	"azure-otlp.yaml":         {"DCR_METRICS_ENDPOINT": "https://127.0.0.1:9/"},
	"kubernetes-node.yaml":    {"K8S_NODE_NAME": "node-1"},
	"gateway.yaml":            {"OTLP_ENDPOINT": "http://127.0.0.1:9"},
	"node-to-gateway.yaml":    {"GATEWAY_ENDPOINT": "127.0.0.1:9"},
	"default.yaml":            {},
	"retina-compat.yaml":      {},
	"standalone-windows.yaml": {}, // started in test/winhns/e2e
}

// configs are the arguments for a ready configuration; one is put over another.
func configs(name string) []string {
	args := []string{"--config", ready + name}
	if name == "node-to-gateway.yaml" {
		args = append([]string{"--config", ready + "default.yaml"}, args...)
	}
	return args
}

func run(t *testing.T, env map[string]string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, testkit.Collector(t, "../.."), args...)
	cmd.Env = []string{"STATE_DIRECTORY=" + t.TempDir()}
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "it started all the same:\n%s", out)
	return string(out), err
}

func TestAllAreValid(t *testing.T) {
	files, err := filepath.Glob(ready + "*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(environment), "a configuration without a test")
	for name, env := range environment {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, env, append([]string{"validate"}, configs(name)...)...)
			require.NoError(t, err, out)
			require.NotContains(t, out, "unset environment variable", "all that it needs is known here")
			out, err = run(t, env, append([]string{"print-config", "--format=json"}, configs(name)...)...)
			require.NoError(t, err, out)
			require.NoError(t, testkit.CheckPages([]byte(out)))
			checkQueues(t, name, out)
		})
	}
}

// checkQueues: what waits on a node's disk is bounded in bytes, and its file is made
// small again afterwards. A printed configuration does not have the sizer.
func checkQueues(t *testing.T, name, printed string) {
	t.Helper()
	content, err := os.ReadFile(ready + name)
	require.NoError(t, err)
	for _, queue := range regexp.MustCompile(`storage: file_storage.*`).FindAllString(string(content), -1) {
		assert.Equal(t, "storage: file_storage, sizer: bytes, queue_size: 500000000}", queue)
	}
	var config struct {
		Extensions map[string]struct {
			Directory  string
			Compaction *struct {
				Directory      string
				OnRebound      bool `json:"on_rebound"`
				CleanupOnStart bool `json:"cleanup_on_start"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(printed), &config))
	if storage, ok := config.Extensions["file_storage"]; ok {
		assert.True(t, storage.Compaction.OnRebound && storage.Compaction.CleanupOnStart)
		assert.Equal(t, storage.Directory, storage.Compaction.Directory)
	}
}

// TestEveryVariableIsNeeded: where one is not set, the start fails and says which.
// The Collector says it in a warning, which is the first of its log or, where a
// component could not be made, what stands above the closing error.
func TestEveryVariableIsNeeded(t *testing.T) {
	for name, env := range environment {
		content, err := os.ReadFile(ready + name)
		require.NoError(t, err)
		for variable := range env {
			t.Run(name+"/"+variable, func(t *testing.T) {
				require.Regexp(t, regexp.MustCompile(`(?m)^#.*\b`+variable+`\b`), string(content), "said in the file's head")
				partial := map[string]string{}
				for k, v := range env {
					if k != variable {
						partial[k] = v
					}
				}
				out, err := run(t, partial, configs(name)...)
				require.Error(t, err, out)
				said := regexp.MustCompile(`(?m)^.*\twarn\t.*unset environment variable.*"` + variable + `".*$`).FindStringIndex(out)
				require.NotNil(t, said, out)
				require.Regexp(t, `(?m)^Error: .+`, out[said[1]:])
				before, after := out[:said[0]], out[said[1]:]
				if regexp.MustCompile(`(?m)^.*\t(warn|error)\t`).MatchString(before) {
					assert.Regexp(t, `^\nError: `, after)
				}
				assert.NotContains(t, out, "panic")
			})
		}
	}
}
