// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint/endpointtest"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// slowSource takes as long for a Read as it may, and fails with what it hadn't
// read by then.
type slowSource struct {
	endpointtest.Source
	err func(context.Context) error
}

func (s *slowSource) Read(ctx context.Context, visit func(*endpoint.Endpoint, *endpoint.Counters)) error {
	if err := s.Source.Read(ctx, visit); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(59 * time.Second):
	}
	return s.err(ctx)
}

// The controller would wait for the scrape under way, for longer than a pod's time
// to end. What is cut off is no failure of endpoints.
func TestShutdownCutsTheScrapeOff(t *testing.T) {
	for name, test := range map[string]struct {
		err    func(context.Context) error
		sights []endpointtest.Sight
	}{
		"while endpoints are listed": {context.Context.Err, nil},
		"while endpoints are read": {func(context.Context) error {
			return errors.Join(&endpoint.Error{Endpoint: "web-1", ID: "9", Err: errors.New("not reached")})
		}, []endpointtest.Sight{windowsPod}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				set := receivertest.NewNopSettings(metadata.Type)
				set.Logger = zap.New(core)
				host := &statusHost{Host: componenttest.NewNopHost()}
				cfg := createDefaultConfig().(*Config)
				cfg.CollectionInterval = time.Minute
				sink := &consumertest.MetricsSink{}
				source := &slowSource{Source: endpointtest.Source{Sights: test.sights}, err: test.err}
				r, err := newReceiver(cfg, source, set, sink)
				require.NoError(t, err)
				require.NoError(t, r.Start(t.Context(), host))
				time.Sleep(3 * time.Second)

				begin := time.Now()
				require.NoError(t, r.Shutdown(t.Context()))
				require.Zero(t, time.Since(begin))
				require.Empty(t, logs.All())
				require.Empty(t, host.reported)
				require.Len(t, sink.AllMetrics(), 1)
				require.Equal(t, len(test.sights), sink.AllMetrics()[0].ResourceMetrics().Len(), "what was read is passed on")
				require.NoError(t, r.Shutdown(t.Context()), "twice")
			})
		})
	}
}
