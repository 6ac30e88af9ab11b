// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestBadConfig starts the binary on configurations that are wrong in one key:
// it must refuse and say the key, the value and what is allowed.
func TestBadConfig(t *testing.T) {
	const (
		goodReceiver  = "hnsstats: {collection_interval: 10s}"
		goodIdentity  = "podidentity: {sources: {statefile: {path: /nonexistent/pods.yaml, format: list}}}"
		goodProcessor = "podenrich: {identity: podidentity}"
	)
	tests := []struct {
		name                           string
		receiver, extension, processor string
		key, value                     string
		allowed                        []string
	}{
		{
			name:      "unknown source type",
			extension: "podidentity: {sources: {docker: {}}}",
			key:       "sources", value: "docker", allowed: []string{"cri", "statefile"},
		},
		{
			name:      "unknown state file format",
			extension: "podidentity: {sources: {statefile: {path: /run/x.json, format: azure}}}",
			key:       "format", value: "azure", allowed: []string{"azure-vnet", "cni-results", "list"},
		},
		{
			name:      "endpoint that is no URL",
			extension: "podidentity: {sources: {cri: {endpoint: /run/containerd/containerd.sock}}}",
			key:       "endpoint", value: "/run/containerd/containerd.sock", allowed: []string{"unix://"},
		},
		{
			name:      "endpoint of a scheme that is none",
			extension: `podidentity: {sources: {cri: {endpoint: "http://localhost:80"}}}`,
			key:       "endpoint", value: "http://localhost:80", allowed: []string{"unix://"},
		},
		{
			name:     "negative interval",
			receiver: "hnsstats: {collection_interval: -10s}",
			key:      "collection_interval", value: "-10s", allowed: []string{"positive"},
		},
		{
			name:      "negative grace period",
			extension: "podidentity: {grace_period: -1s, sources: {cri: {}}}",
			key:       "grace_period", value: "-1s",
		},
		{
			name:      "precedence that names no source",
			extension: "podidentity: {precedence: [cri, k8s/other], sources: {cri: {}}}",
			key:       "precedence", value: "k8s/other", allowed: []string{"cri"},
		},
		{
			name:      "identity that is no podidentity extension",
			processor: "podenrich: {identity: health_check}",
			key:       "identity", value: "health_check", allowed: []string{"podidentity"},
		},
		{
			name:      "identity that is not there",
			processor: "podenrich: {identity: podidentity/other}",
			key:       "identity", value: "podidentity/other", allowed: []string{"podidentity"},
		},
		{
			name:      "unknown on_unready",
			processor: "podenrich: {identity: podidentity, on_unready: wait}",
			key:       "on_unready", value: "wait", allowed: []string{"pass", "drop", "hold"},
		},
	}
	or := func(s, fallback string) string {
		if s == "" {
			return fallback
		}
		return s
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(config, []byte(`
receivers:
  `+or(test.receiver, goodReceiver)+`
processors:
  `+or(test.processor, goodProcessor)+`
exporters:
  nop:
extensions:
  `+or(test.extension, goodIdentity)+`
  health_check: {endpoint: "127.0.0.1:0"}
service:
  extensions: [podidentity, health_check]
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [hnsstats], processors: [podenrich], exporters: [nop]}
`), 0o600))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			out, err := exec.CommandContext(ctx, testkit.Collector(t, "../.."), "--config", config).CombinedOutput()
			require.NoError(t, ctx.Err(), "it started all the same:\n%s", out)
			require.Error(t, err)
			for _, want := range append(test.allowed, test.key, test.value) {
				assert.Contains(t, string(out), want)
			}
			assert.NotContains(t, string(out), "panic")
		})
	}
}
