// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func loadConfig(t *testing.T, id string) (*Config, error) {
	conf, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	sub, err := conf.Sub(id)
	require.NoError(t, err)
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	if err := sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestConfig(t *testing.T) {
	cfg, err := loadConfig(t, "hnsstats")
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, cfg.CollectionInterval)
	require.Equal(t, VFPConfig{Enabled: true, Timeout: 5 * time.Second}, cfg.HNS.VFP)
	require.False(t, cfg.Netlink.TCP.Enabled)
	require.True(t, cfg.Metrics.K8sPodNetworkTCPConnectionEvents.Enabled)

	cfg, err = loadConfig(t, "hnsstats/all")
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, cfg.CollectionInterval)
	require.Equal(t, 5*time.Second, cfg.InitialDelay)
	require.Equal(t, 20*time.Second, cfg.Timeout)
	require.Equal(t, VFPConfig{Timeout: time.Second}, cfg.HNS.VFP)
	require.True(t, cfg.Netlink.TCP.Enabled)
	require.False(t, cfg.Metrics.K8sPodNetworkErrors.Enabled)
	require.False(t, cfg.ResourceAttributes.ContainerID.Enabled)
}

func TestBadConfig(t *testing.T) {
	for id, message := range map[string]string{
		"hnsstats/negative_interval": "collection_interval is -10s, must be longer than 0",
		"hnsstats/no_unit":           "collection_interval is 10ns, must be 1ms or more",
		"hnsstats/negative_timeout":  "timeout is -1s, must be longer than 0, or 0 for none",
		"hnsstats/no_vfp_timeout":    "hns::vfp: timeout is 0s, must be longer than 0",
		"hnsstats/unknown_key":       "'netlink' has invalid keys: walk",
		"hnsstats/attribute_twice":   "metrics::k8s.pod.network.tcp.packet.count::attributes is [tcp.flag tcp.flag], must name tcp.flag once only",
	} {
		_, err := loadConfig(t, id)
		require.ErrorContains(t, err, message, id)
	}
}
