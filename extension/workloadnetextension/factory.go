// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"go.opentelemetry.io/collector/extension"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/metadata"
)

// NewFactory returns the factory of the workloadnet extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, createExtension, metadata.ExtensionStability)
}
