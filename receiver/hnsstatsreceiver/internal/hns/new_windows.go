// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// New returns the source that reads HNS and VFP.
func New(cfg Config, set component.TelemetrySettings) (endpoint.Source, error) {
	vfpctrl, err := newVFPCtrl()
	if err != nil {
		return nil, err
	}
	return newSource(cfg, set, newCalls(), vfpctrl), nil
}
