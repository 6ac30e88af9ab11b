// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseEndpoint(t *testing.T) {
	s, err := parseEndpoint("unix:///run/containerd/containerd.sock")
	require.NoError(t, err)
	require.Equal(t, socket{"unix", "/run/containerd/containerd.sock"}, s)
	require.Equal(t, "unix:///run/containerd/containerd.sock", s.String())

	for _, bad := range []string{
		"/run/containerd/containerd.sock", "containerd", "unix://", "unix:///", "unix://run/x.sock",
		"tcp://127.0.0.1:1234", "http://x", "npipe:////./other/x", "npipe:", ":", "%zz",
	} {
		_, err := parseEndpoint(bad)
		require.ErrorContains(t, err, bad)
		require.ErrorContains(t, err, "want unix:///path/of/the.sock")
	}

	for _, pipe := range []string{"npipe:////./pipe/containerd-containerd", "npipe://./pipe/containerd-containerd"} {
		s, err := parseEndpoint(pipe)
		if !pipes {
			require.ErrorContains(t, err, "on Windows only")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, `\\.\pipe\containerd-containerd`, s.address)
		require.Equal(t, "npipe:////./pipe/containerd-containerd", s.String())
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, NewDefaultConfig().Validate())
	cfg := &Config{Endpoint: "containerd", PollInterval: -time.Second, Timeout: 0}
	err := cfg.Validate()
	require.ErrorContains(t, err, `endpoint: "containerd" is no URL`)
	require.ErrorContains(t, err, "poll_interval: -1s: must be more than 0s")
	require.ErrorContains(t, err, "timeout: 0s: must be more than 0s")
}

func TestFindEndpoint(t *testing.T) {
	here := filepath.Join(t.TempDir(), "cri.sock")
	require.NoError(t, os.WriteFile(here, nil, 0o600))
	usual := usualEndpoints
	t.Cleanup(func() { usualEndpoints = usual })
	usualEndpoints = []socket{{"unix", here + ".not"}, {"unix", here}, {"unix", here + ".later"}}

	t.Setenv(environment, "")
	s, err := findEndpoint("")
	require.NoError(t, err)
	require.Equal(t, here, s.address)

	t.Setenv(environment, "unix:///run/other.sock")
	s, err = findEndpoint("")
	require.NoError(t, err)
	require.Equal(t, "/run/other.sock", s.address)
	t.Setenv(environment, "/run/bare.sock")
	s, err = findEndpoint("")
	require.NoError(t, err)
	require.Equal(t, "/run/bare.sock", s.address)
	t.Setenv(environment, "nonsense")
	_, err = findEndpoint("")
	require.ErrorContains(t, err, environment+`: "nonsense" is no URL`)

	s, err = findEndpoint("unix:///run/configured.sock")
	require.NoError(t, err)
	require.Equal(t, "/run/configured.sock", s.address)

	t.Setenv(environment, "")
	usualEndpoints = usualEndpoints[:1]
	_, err = findEndpoint("")
	require.ErrorContains(t, err, "found no container runtime at unix://"+here+".not: set endpoint")
}

// TestRuntimeThatAppearsLater looks again while the endpoint is not configured.
func TestRuntimeThatAppearsLater(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	usual := usualEndpoints
	t.Cleanup(func() { usualEndpoints = usual })
	first := filepath.Join(t.TempDir(), "first.sock")
	require.NoError(t, os.WriteFile(first, nil, 0o600)) // left behind by a runtime that is no more
	usualEndpoints = []socket{{"unix", first}, {"unix", f.path}}
	t.Setenv(environment, "")
	sink := observe(t, &Config{PollInterval: 50 * time.Millisecond, Timeout: time.Second})
	sink.awaitFailure(t)
	require.NoError(t, os.Remove(first))
	sink.awaitPod(t, "a")
}
