// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

// TestConfig reads testdata/config.yaml: what is good under "good", and what is
// refused under "refused", with the words that the error must have.
func TestConfig(t *testing.T) {
	all, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	good, err := all.Sub("good")
	require.NoError(t, err)
	for name := range good.ToStringMap() {
		t.Run(name, func(t *testing.T) {
			sub, err := good.Sub(name)
			require.NoError(t, err)
			cfg := createDefaultConfig()
			require.NoError(t, sub.Unmarshal(cfg))
			require.NoError(t, confmap.Validate(cfg))
		})
	}
	refused, err := all.Sub("refused")
	require.NoError(t, err)
	for name := range refused.ToStringMap() {
		t.Run(name, func(t *testing.T) {
			sub, err := refused.Sub(name)
			require.NoError(t, err)
			config, err := sub.Sub("config")
			require.NoError(t, err)
			cfg := createDefaultConfig()
			err = config.Unmarshal(cfg)
			if err == nil {
				err = confmap.Validate(cfg)
			}
			require.Error(t, err)
			for _, want := range sub.Get("error").([]any) {
				require.ErrorContains(t, err, want.(string))
			}
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}
