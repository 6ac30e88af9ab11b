// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/metadatatest"
)

func unreadyFake() *fakeIdentities {
	f := newFake(node()...)
	f.synced = make(chan struct{})
	return f
}

func onUnready(what OnUnready) *Config {
	return newConfig(func(c *Config) { c.OnUnready = what })
}

func webMetrics(t *testing.T) pmetric.Metrics {
	return oneResource(t, attrs{"k8s.pod.ip": "10.9.0.5"}, epoch, epoch)
}

func (b *bed) names() (names []any) {
	for _, md := range b.sink.AllMetrics() {
		names = append(names, md.ResourceMetrics().At(0).Resource().Attributes().AsRaw()["k8s.pod.name"])
	}
	return names
}

func TestPassWhileUnready(t *testing.T) {
	b := newBed(t, onUnready(UnreadyPass), unreadyFake())
	require.NoError(t, b.ConsumeMetrics(t.Context(), webMetrics(t)))
	require.NoError(t, b.ConsumeMetrics(t.Context(), oneResource(t, attrs{"k8s.pod.ip": "10.200.0.1"}, epoch)))
	assert.Equal(t, []any{"web-0", nil}, b.names(), "what is known is named, the rest goes on without")
}

func TestDropWhileUnready(t *testing.T) {
	f := unreadyFake()
	b := newBed(t, onUnready(UnreadyDrop), f)
	require.NoError(t, b.ConsumeMetrics(t.Context(), webMetrics(t)))
	assert.Empty(t, b.names())
	metadatatest.AssertEqualProcessorPodenrichDroppedItems(t, b.telemetry,
		[]metricdata.DataPoint[int64]{{Value: 2, Attributes: plainAttributes("metrics")}}, metricdatatest.IgnoreTimestamp())
	assert.Empty(t, b.outcomes(t, "items"), "dropped items were never looked up")

	close(f.synced)
	require.NoError(t, b.ConsumeMetrics(t.Context(), webMetrics(t)))
	assert.Equal(t, []any{"web-0"}, b.names())
}

// consume sends a batch from a goroutine of its own.
func (b *bed) consume(ctx context.Context, md pmetric.Metrics) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.ConsumeMetrics(ctx, md) }()
	return done
}

// heldFake is a fake that tells when somebody waits for it: the second call of
// Synced is the one that hold waits on.
type heldFake struct {
	*fakeIdentities
	asked chan struct{}
}

func (f heldFake) Synced() <-chan struct{} {
	f.asked <- struct{}{}
	return f.synced
}

func newHeld() heldFake { return heldFake{unreadyFake(), make(chan struct{})} }

func (f heldFake) waitUntilHeld() { <-f.asked; <-f.asked }

func TestHoldUntilReady(t *testing.T) {
	f := newHeld()
	b := newBed(t, onUnready(UnreadyHold), f)
	done := b.consume(t.Context(), webMetrics(t))
	f.waitUntilHeld()
	assert.Empty(t, b.names())
	close(f.synced)
	require.NoError(t, <-done)
	assert.Equal(t, []any{"web-0"}, b.names())
}

func TestHoldEndsWithTheSendersPatience(t *testing.T) {
	f := newHeld()
	b := newBed(t, onUnready(UnreadyHold), f)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	done := b.consume(ctx, webMetrics(t))
	f.waitUntilHeld()
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `identities of extension "podidentity" are not ready (on_unready is hold): context canceled`)
	assert.Empty(t, b.names())
}

func TestHoldEndsWithShutdown(t *testing.T) {
	f := newHeld()
	b := newBed(t, onUnready(UnreadyHold), f)
	done := b.consume(t.Context(), webMetrics(t))
	f.waitUntilHeld()
	require.NoError(t, b.Shutdown(t.Context()))
	require.ErrorIs(t, <-done, errStopping)
	assert.Empty(t, b.names())
}
