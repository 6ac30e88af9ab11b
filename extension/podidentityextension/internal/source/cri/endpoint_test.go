// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

func TestFindEndpoints(t *testing.T) {
	t.Setenv(environment, "")
	places, err := findEndpoints("")
	require.NoError(t, err)
	require.Equal(t, usualEndpoints, places)

	for e, want := range map[string]string{"unix:///run/other.sock": "/run/other.sock", "/run/bare.sock": "/run/bare.sock"} {
		t.Setenv(environment, e)
		places, err = findEndpoints("")
		require.NoError(t, err)
		require.Equal(t, []socket{{"unix", want}}, places)
	}
	t.Setenv(environment, "nonsense")
	_, err = findEndpoints("")
	require.ErrorContains(t, err, environment+`: "nonsense" is no URL`)

	places, err = findEndpoints("unix:///run/configured.sock")
	require.NoError(t, err)
	require.Equal(t, []socket{{"unix", "/run/configured.sock"}}, places)
}

// lookAt has sources look for a runtime at these places.
func lookAt(t *testing.T, paths ...string) *Config {
	usual := usualEndpoints
	t.Cleanup(func() { usualEndpoints = usual })
	usualEndpoints = nil
	for _, path := range paths {
		usualEndpoints = append(usualEndpoints, socket{unix, path})
	}
	t.Setenv(environment, "")
	return &Config{PollInterval: 50 * time.Millisecond, Timeout: 5 * time.Second}
}

// leftBehind is the socket of a runtime that is no more, withoutCRI one of a
// containerd whose CRI plugin is off, as Docker's package has it.
func leftBehind(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "left.sock")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}

func withoutCRI(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "other.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return path
}

// TestRuntimeThatAppearsLater looks again while the endpoint is not configured.
func TestRuntimeThatAppearsLater(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	absent, later := f.path+".not", f.path+".later"
	sink := observe(t, lookAt(t, absent, later))
	require.EqualError(t, sink.awaitFailure(t), "found no container runtime at unix://"+absent+", unix://"+later+": set endpoint to where it listens")
	require.NoError(t, os.Symlink(f.path, later))
	sink.awaitPod(t, "a")
}

func TestNoRuntimeAnswers(t *testing.T) {
	left, other, absent := leftBehind(t), withoutCRI(t), filepath.Join(t.TempDir(), "absent.sock")
	sink := observe(t, lookAt(t, left, other, absent))
	err := sink.awaitFailure(t)
	require.ErrorContains(t, err, "found no container runtime: connect to the container runtime at unix://"+left+": dial unix "+left+": connect: connection refused; ")
	require.ErrorContains(t, err, "list the pod sandboxes on unix://"+other+": rpc error: code = Unimplemented")
	require.ErrorContains(t, err, "is its CRI plugin on?; there is nothing at unix://"+absent+"; set endpoint to where it listens")
	require.Zero(t, sink.synced)
}

// TestRuntimeBehindOthers has cri-dockerd on a node of Docker's.
func TestRuntimeBehindOthers(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	sink := observe(t, lookAt(t, leftBehind(t), f.path+".not", withoutCRI(t), f.path))
	sink.awaitPod(t, "a")
	require.Empty(t, sink.failures)
}

// TestRuntimeThatWasFoundStays away until it comes back, whatever else answers.
func TestRuntimeThatWasFoundStays(t *testing.T) {
	first, f := newFakeRuntime(t), newFakeRuntime(t)
	first.run("b", withIP("10.0.0.2"))
	f.run("a", withIP("10.0.0.1"))
	place := first.path + ".later"
	sink := observe(t, lookAt(t, place, f.path))
	sink.awaitPod(t, "a")
	require.NoError(t, os.Symlink(first.path, place))
	f.kill()
	for range 3 {
		require.ErrorContains(t, sink.awaitFailure(t), f.endpoint())
	}
	f.run("c", withIP("10.0.0.3"))
	f.start()
	sink.awaitPod(t, "c")
	require.Empty(t, sink.dead)
	require.NotContains(t, sink.records, "b")
}

// A runtime that denies us access is there: what answers elsewhere is not it.
func TestElsewhere(t *testing.T) {
	for _, err := range []error{fs.ErrPermission, context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, ""), status.Error(codes.Unavailable, "")} {
		require.False(t, elsewhere(fmt.Errorf("connect: %w", err)), err.Error())
	}
	for _, err := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, status.Error(codes.Unimplemented, "")} {
		require.True(t, elsewhere(fmt.Errorf("connect: %w", err)), err.Error())
	}
}
