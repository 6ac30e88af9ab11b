// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNetworkNamespace(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		return string(b)
	}
	for name, tt := range map[string]struct{ info, want string }{
		"containerd 1.6":               {read("info-containerd-1.6.20.json"), "/run/cribed/state/io.containerd.grpc.v1.cri/netns/cni-5281a8f6-acef-29fa-f8e4-f767c6609781"},
		"containerd 2.2":               {read("info-containerd-2.2.9.json"), "/run/cribed/state/io.containerd.grpc.v1.cri/netns/cni-d9322eca-0d7e-e27b-5609-beed3f456e0a"},
		"containerd 2.2, host network": {read("info-containerd-2.2.9-host-network.json"), ""},
		"without a specification":      {`{"pid":1}`, ""},
		"null":                         {`null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := networkNamespace(map[string]string{"info": tt.info})
			require.NoError(t, err)
			require.Equal(t, tt.want, path)
		})
	}
	path, err := networkNamespace(nil) // cri-dockerd
	require.NoError(t, err)
	require.Empty(t, path)
	for _, bad := range []string{"", "{", "[]", `{"runtimeSpec":3}`} {
		_, err := networkNamespace(map[string]string{"info": bad})
		require.ErrorContains(t, err, "verbose information", bad)
	}
}

func FuzzNetworkNamespace(f *testing.F) {
	samples, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, samples)
	for _, name := range samples {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, info string) {
		path, err := networkNamespace(map[string]string{"info": info})
		if err != nil {
			require.Empty(t, path)
			require.True(t, strings.HasPrefix(err.Error(), "verbose information: "))
		}
	})
}
