// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUndetected(t *testing.T) {
	for _, tt := range []struct{ name, text, err string }{
		{"another JSON object", `{"a":1}`, "has none of the keys Network, Endpoints, allocations, pods; set format"},
		{"text", "hello\n", "is neither a JSON object nor YAML with a list of pods; set format"},
		{"half of a JSON object", `{"Network":{"Ext`, "unexpected end of JSON input"},
		{"JSON array", `[]`, "is neither a JSON object nor YAML"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := detectFile([]byte(tt.text))
			assert.ErrorContains(t, err, tt.err)
		})
	}
	t.Run("empty directory", func(t *testing.T) {
		_, err := detectDir(t.TempDir())
		assert.ErrorIs(t, err, errUndetected)
	})
	t.Run("directory of other files", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a-b-c"), []byte("x"), 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "7"), 0o700))
		_, err := detectDir(dir)
		assert.ErrorIs(t, err, errUndetected)
	})
}

func TestUsualPlaces(t *testing.T) {
	for _, format := range formatNames {
		for _, path := range usualPaths(runtime.GOOS, format) {
			assert.Equal(t, format, usualFormat(runtime.GOOS, filepath.Clean(path)), path)
		}
	}
	assert.Equal(t, []string{`C:\k\azure-vnet.json`, `C:\k\azurecni\bin\azure-vnet.json`, `C:\Windows\System32\azure-vnet.json`},
		usualPaths("windows", formatAzureVNet), "in this order")
	assert.Empty(t, usualPaths("linux", formatList))
	assert.Empty(t, usualFormat("linux", "/etc/pods.yaml"))
}

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		errs []string
	}{
		{"path", Config{Path: "/p", PollInterval: time.Second}, nil},
		{"format in its usual place", Config{Format: formatAzureVNet, PollInterval: time.Second}, nil},
		{"neither", Config{PollInterval: time.Second}, []string{"path: is empty; give the state file's path, or a format"}},
		{"unknown format", Config{Path: "/p", Format: "azure", PollInterval: time.Second}, []string{`format: "azure" is unknown; allowed are azure-vnet, azure-cns, cni-results, list,`}},
		{"no usual place", Config{Format: formatList, PollInterval: time.Second}, []string{`path: is empty, and format "list" has no usual place on`}},
		{"negative interval", Config{Path: "/p", PollInterval: -time.Second}, []string{"poll_interval: -1s is not allowed; it must be above 0"}},
		{"no unit", Config{Path: "/p", PollInterval: 10}, []string{"poll_interval: 10ns is not allowed; it must be 1ms or more"}},
		{"all wrong", Config{}, []string{"path: is empty", "poll_interval: 0s is not allowed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if tt.errs == nil {
				assert.NoError(t, err)
			}
			for _, e := range tt.errs {
				assert.ErrorContains(t, err, e)
			}
		})
	}
	assert.ErrorContains(t, NewDefaultConfig().Validate(), "path: is empty")
}
