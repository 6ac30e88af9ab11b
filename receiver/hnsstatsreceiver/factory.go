// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/scraper"
	"go.opentelemetry.io/collector/scraper/scraperhelper"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// NewFactory creates the receiver's factory.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(
		metadata.Type,
		createDefaultConfig,
		receiver.WithMetrics(createMetrics, metadata.MetricsStability))
}

func createMetrics(_ context.Context, set receiver.Settings, conf component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	cfg := conf.(*Config)
	source, err := newSource(cfg, set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return newReceiver(cfg, source, set, next)
}

func newReceiver(cfg *Config, source endpoint.Source, set receiver.Settings, next consumer.Metrics) (receiver.Metrics, error) {
	outages := &outages{logger: set.Logger}
	set.Logger = set.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return &outageCore{Core: core, outages: outages}
	}))
	s := newScraper(cfg.MetricsBuilderConfig, source, outages, set)
	r := &metricsReceiver{}
	r.stopping, r.stop = context.WithCancel(context.Background())
	scrape := func(ctx context.Context) (pmetric.Metrics, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(r.stopping, func() { cancel(errShutdown) })()
		return s.scrape(ctx)
	}
	metrics, err := scraper.NewMetrics(scrape, scraper.WithStart(s.start), scraper.WithShutdown(s.shutdown))
	if err != nil {
		return nil, err
	}
	r.Metrics, err = scraperhelper.NewMetricsController(&cfg.ControllerConfig, set, next,
		scraperhelper.AddMetricsScraper(metadata.Type, metrics))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// errShutdown is why a scrape's context ends when the receiver is shut down.
var errShutdown = errors.New("the receiver is shut down")

// metricsReceiver is a scraper controller that can be shut down twice, and doesn't
// wait for the scrape under way to end by itself, as the controller does: where VFP
// is slow or HNS hangs, that can take nearly the collection interval.
type metricsReceiver struct {
	receiver.Metrics
	stopping context.Context //nolint:containedctx // ends at Shutdown
	stop     context.CancelFunc
	once     sync.Once
}

// Shutdown cuts off the scrape under way; what it has read by then is passed on.
func (r *metricsReceiver) Shutdown(ctx context.Context) (err error) {
	r.once.Do(func() {
		r.stop()
		err = r.Metrics.Shutdown(ctx)
	})
	return err
}
