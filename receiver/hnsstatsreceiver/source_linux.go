// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats"
)

func newSource(cfg *Config, set component.TelemetrySettings) (endpoint.Source, error) {
	return netlinkstats.New(netlinkstats.Config{
		TCP: cfg.Netlink.TCP.Enabled && cfg.Metrics.K8sPodNetworkTCPConnectionEvents.Enabled,
	}, set.Logger), nil
}
