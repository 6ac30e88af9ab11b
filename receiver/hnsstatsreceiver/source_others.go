// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !windows

package hnsstatsreceiver

import (
	"fmt"
	"runtime"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

func newSource(*Config, component.TelemetrySettings) (endpoint.Source, error) {
	return nil, fmt.Errorf("the hnsstats receiver does not run on %s: it reads pod endpoints on linux and windows only", runtime.GOOS)
}
