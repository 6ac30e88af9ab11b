// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/cri"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/k8s"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/statefile"
)

// sourceTypes are the types that the sources setting takes: one line each.
var sourceTypes = map[string]sourceType{
	"cri":       sourceTypeOf(cri.NewDefaultConfig, cri.New),
	"k8s":       sourceTypeOf(k8s.NewDefaultConfig, k8s.New).thatWatches(),
	"statefile": sourceTypeOf(statefile.NewDefaultConfig, statefile.New),
}

// push is the source that Publish feeds. It needs no configuration.
const push = "push"

// defaultOrder is the precedence of the types of sources that the precedence
// setting does not name.
var defaultOrder = []string{push, "cri", "k8s", "statefile"}

type sourceType struct {
	newConfig func() component.Config
	newSource func(component.Config, component.TelemetrySettings) (source.Source, error)
	// watches: it sees labels and annotations change, and keeps only wanted ones,
	// so it starts when all are known.
	watches bool
}

func (t sourceType) thatWatches() sourceType {
	t.watches = true
	return t
}

func sourceTypeOf[C any](
	newConfig func() *C,
	newSource func(*C, component.TelemetrySettings) (source.Source, error),
) sourceType {
	return sourceType{
		newConfig: func() component.Config { return newConfig() },
		newSource: func(cfg component.Config, set component.TelemetrySettings) (source.Source, error) {
			return newSource(cfg.(*C), set)
		},
	}
}

func allowedTypes() string {
	return strings.Join(slices.Sorted(maps.Keys(sourceTypes)), ", ")
}
