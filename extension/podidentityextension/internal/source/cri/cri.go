// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri learns pods from a container runtime through CRI v1.
package cri

import (
	"context"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

type criSource struct {
	cfg *Config
}

// New returns a source that reads the runtime at cfg.Endpoint.
func New(cfg *Config, _ component.TelemetrySettings) (source.Source, error) {
	return &criSource{cfg: cfg}, nil
}

func (s *criSource) Start(context.Context, source.Sink) error { return nil }
func (s *criSource) Shutdown(context.Context) error           { return nil }
