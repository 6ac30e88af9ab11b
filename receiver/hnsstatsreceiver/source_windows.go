// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/hns"
)

func newSource(cfg *Config, set component.TelemetrySettings) (endpoint.Source, error) {
	return hns.New(hns.Config{
		VFP: hns.VFPConfig{
			Enabled: cfg.HNS.VFP.Enabled && cfg.wantsVFP(),
			Timeout: cfg.HNS.VFP.Timeout,
		},
		// A scrape that takes longer than the interval delays the next one.
		Deadline: cfg.CollectionInterval,
	}, set)
}

// wantsVFP reports whether a metric is enabled that VFP has counters for.
func (c *Config) wantsVFP() bool {
	return c.Metrics.K8sPodNetworkPacketDropped.Enabled ||
		c.Metrics.K8sPodNetworkTCPConnectionEvents.Enabled ||
		c.Metrics.K8sPodNetworkTCPPacketCount.Enabled
}
