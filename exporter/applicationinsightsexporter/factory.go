// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configcompression"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelcol-retina/otelcol-retina/exporter/applicationinsightsexporter/internal/metadata"
)

// NewFactory returns the factory of the applicationinsights exporter.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(metadata.Type, createDefaultConfig, exporter.WithMetrics(createMetrics, metadata.MetricsStability))
}

func createDefaultConfig() component.Config {
	client := confighttp.NewDefaultClientConfig()
	client.Timeout = 30 * time.Second
	client.Compression = configcompression.TypeGzip
	retry := configretry.NewDefaultBackOffConfig()
	retry.MaxElapsedTime = 0 // deltas that are given up are lost for good
	queue := exporterhelper.NewDefaultQueueConfig()
	// No request has more items than those of Application Insights' own SDKs.
	queue.Batch = configoptional.Some(exporterhelper.BatchConfig{
		FlushTimeout: time.Second, Sizer: exporterhelper.RequestSizerTypeItems, MinSize: 1, MaxSize: 1000,
	})
	return &Config{ClientConfig: client, RetryConfig: retry, QueueConfig: configoptional.Some(queue)}
}

func createMetrics(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Metrics, error) {
	c := cfg.(*Config)
	e, err := newExporter(c, set)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewMetrics(ctx, set, cfg, e.push,
		exporterhelper.WithStart(e.start),
		exporterhelper.WithShutdown(e.shutdown),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		// The HTTP client has its own.
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}),
		exporterhelper.WithRetry(c.RetryConfig),
		exporterhelper.WithQueue(c.QueueConfig))
}
