// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// startedSource is a fake source that notes what it was told was wanted when it
// was started.
type startedSource struct {
	started             bool
	labels, annotations []string
}

func (s *startedSource) Start(_ context.Context, sink source.Sink) error {
	s.started = true
	s.labels, s.annotations = sink.Wanted()
	return nil
}

func (s *startedSource) Shutdown(context.Context) error { return nil }

func TestSourcesThatTrimStartWhenEverythingWantedIsKnown(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	e, err := newExtension(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	plain, trimming := &startedSource{}, &startedSource{}
	e.sources = []*feed{
		newFeed(e, "plain", 0, plain, zap.NewNop()),
		newFeed(e, "trimming", 1, trimming, zap.NewNop()),
	}
	e.sources[1].watches = true

	require.NoError(t, e.Start(context.Background(), componenttest.NewNopHost()))
	assert.True(t, plain.started)
	assert.False(t, trimming.started)

	e.Want([]string{"app", "tier"}, nil) // two processors start
	e.Want([]string{"app", "zone"}, []string{"team"})
	require.NoError(t, e.Ready())
	assert.True(t, trimming.started)
	assert.Equal(t, []string{"app", "tier", "zone"}, trimming.labels)
	assert.Equal(t, []string{"team"}, trimming.annotations)

	require.NoError(t, e.NotReady())
	require.NoError(t, e.Shutdown(context.Background()))
}
