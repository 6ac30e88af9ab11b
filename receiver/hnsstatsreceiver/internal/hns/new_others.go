// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package hns

import (
	"errors"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// New fails: only Windows has HNS.
func New(Config, component.TelemetrySettings) (endpoint.Source, error) {
	return nil, errors.New("the Host Networking Service (HNS) is a part of Windows")
}
