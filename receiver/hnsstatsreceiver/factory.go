// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/scraper"
	"go.opentelemetry.io/collector/scraper/scraperhelper"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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
	outages := &outages{logger: set.Logger}
	set.Logger = set.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return &outageCore{Core: core, outages: outages}
	}))
	s := newScraper(cfg.MetricsBuilderConfig, source, outages, set)
	metrics, err := scraper.NewMetrics(s.scrape, scraper.WithStart(s.start), scraper.WithShutdown(s.shutdown))
	if err != nil {
		return nil, err
	}
	controller, err := scraperhelper.NewMetricsController(&cfg.ControllerConfig, set, next,
		scraperhelper.AddMetricsScraper(metadata.Type, metrics))
	if err != nil {
		return nil, err
	}
	return &metricsReceiver{Metrics: controller}, nil
}

// metricsReceiver is a scraper controller that can be shut down twice.
type metricsReceiver struct {
	receiver.Metrics
	once sync.Once
}

func (r *metricsReceiver) Shutdown(ctx context.Context) (err error) {
	r.once.Do(func() { err = r.Metrics.Shutdown(ctx) })
	return err
}
