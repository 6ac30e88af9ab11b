// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workloadnetextension

import (
	"context"
	"fmt"
	"runtime"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

func createExtension(_ context.Context, set extension.Settings, _ component.Config) (extension.Extension, error) {
	return nil, fmt.Errorf("%s runs on Linux only, this is %s: remove it from service::extensions", set.ID, runtime.GOOS)
}
