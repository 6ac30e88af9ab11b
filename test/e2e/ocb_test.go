// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestAlone builds a Collector with one component of this project and none of
// the others, as a user's own ocb configuration would, and starts it.
func TestAlone(t *testing.T) {
	tests := []struct {
		component, config string
		want              string // in the log
		ends              bool   // it refuses to start
	}{
		{
			component: "hnsstats",
			config: `
receivers: {hnsstats: {collection_interval: 100ms}}
exporters: {debug: }
service: {telemetry: {metrics: {level: none}}, pipelines: {metrics: {receivers: [hnsstats], exporters: [debug]}}}
`,
			want: "Everything is ready",
		},
		{
			component: "podidentity",
			config: `
receivers: {nop: }
exporters: {debug: }
extensions: {podidentity: {sources: {cri: {endpoint: "unix:///nonexistent.sock"}}}}
service: {telemetry: {metrics: {level: none}}, extensions: [podidentity], pipelines: {metrics: {receivers: [nop], exporters: [debug]}}}
`,
			want: "Everything is ready",
		},
		{
			// Without an extension that knows the pods it can be built in, and says
			// what it lacks when it is used.
			component: "podenrich",
			config: `
receivers: {nop: }
processors: {podenrich: {identity: podidentity}}
exporters: {debug: }
service: {telemetry: {metrics: {level: none}}, pipelines: {metrics: {receivers: [nop], processors: [podenrich], exporters: [debug]}}}
`,
			want: "podidentity", ends: true,
		},
	}
	for _, test := range tests {
		t.Run(test.component, func(t *testing.T) {
			path := buildAlone(t, test.component)
			components, err := exec.CommandContext(t.Context(), path, "components").CombinedOutput()
			require.NoError(t, err, "%s", components)
			for _, other := range tests {
				assert.Equal(t, other.component == test.component, strings.Contains(string(components), "name: "+other.component+"\n"), "%s in\n%s", other.component, components)
			}
			runUntil(t, path, test.config, test.want, test.ends)
		})
	}
}

// buildAlone runs the builder as a user would and returns the binary's path.
func buildAlone(t *testing.T, component string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	builder := os.Getenv("OCB")
	if builder == "" {
		builder = filepath.Join(root, "bin/tools/builder")
	}
	if _, err := os.Stat(builder); err != nil {
		t.Fatalf("no builder, run make tools: %v", err)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "build/ocb"), 0o755)) // the builder makes only the last directory
	cmd := exec.CommandContext(t.Context(), builder, "--config", "test/ocb/"+component+".yaml")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false") // the Makefile's: one build cache
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(root, "build/ocb", component, "otelcol-"+component)
}

// runUntil starts a collector, waits for want in its log, and stops it; with
// ends, it must end by itself with an error instead.
func runUntil(t *testing.T, path, config, want string, ends bool) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--config", file)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	said := func() string {
		b, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		return string(b)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if !ends {
		testkit.Eventually(t, patience, path+" says "+want, func() error {
			switch {
			case strings.Contains(said(), want):
				return nil
			case len(ended) > 0:
				t.Fatalf("it ended:\n%s", said())
			}
			return errors.New(said())
		})
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	}
	err = <-ended
	require.NoError(t, ctx.Err(), "it did not end:\n%s", said())
	assert.Equal(t, ends, err != nil, "%v:\n%s", err, said())
	assert.Contains(t, said(), want)
	assert.NotContains(t, said(), "panic")
}
