// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/extension"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/metadata"
)

// NewFactory returns the factory of the podidentity extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, createExtension, metadata.ExtensionStability)
}

func createDefaultConfig() component.Config {
	return &Config{
		Sources:        map[component.ID]component.Config{},
		GracePeriod:    time.Minute,
		StartupTimeout: 10 * time.Second,
		Page:           configoptional.Default(defaultPage()),
	}
}

const defaultPageEndpoint = "localhost:8899"

func defaultPage() PageConfig {
	cfg := confighttp.NewDefaultServerConfig()
	cfg.NetAddr.Endpoint = defaultPageEndpoint
	return PageConfig{ServerConfig: cfg}
}

func createExtension(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	e, err := newExtension(cfg.(*Config), set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	e.id = set.ID
	return e, nil
}
