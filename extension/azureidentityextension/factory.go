// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/otelcol-retina/otelcol-retina/extension/azureidentityextension/internal/metadata"
)

// defaultScope is Azure Monitor's: managed Prometheus, OTLP, Application Insights.
// https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-remote-write
const defaultScope = "https://monitor.azure.com/.default"

// NewFactory returns the factory of the azureidentity extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, createExtension, metadata.ExtensionStability)
}

func createDefaultConfig() component.Config {
	return &Config{Scopes: []string{defaultScope}}
}

func createExtension(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	return newExtension(cfg.(*Config), set.TelemetrySettings, nil)
}
