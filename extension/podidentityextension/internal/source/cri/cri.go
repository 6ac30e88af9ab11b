// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri learns pods from a container runtime through CRI v1: it lists the
// sandboxes, and asks for the status of those that it has not seen before.
//
// The runtime's word is final for its own sandboxes: one that is not ready, or
// that a list leaves out, is dead. Events and the directory of network
// namespaces only say when to list again.
package cri

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

const (
	// leastGap is the least time between two lists, however many hints come.
	leastGap = 50 * time.Millisecond
	// firstRetry is the wait after a failure; it doubles up to the poll interval.
	firstRetry = 250 * time.Millisecond
)

type criSource struct {
	cfg    *Config
	logger *zap.Logger

	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a source that reads the runtime at cfg.Endpoint.
func New(cfg *Config, set component.TelemetrySettings) (source.Source, error) {
	return &criSource{cfg: cfg, logger: set.Logger}, nil
}

// Start implements source.Source.
func (s *criSource) Start(_ context.Context, sink source.Sink) error {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		o := newObserver(s.cfg, s.logger, sink)
		defer o.close()
		o.run(ctx)
	}()
	return nil
}

// Shutdown implements source.Source.
func (s *criSource) Shutdown(ctx context.Context) error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the cri source did not end in time"), ctx.Err())
	}
}
