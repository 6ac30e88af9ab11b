// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/scraper"
	"go.opentelemetry.io/collector/scraper/scraperhelper"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
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

// held tells when somebody waits for the identities: the second call of Synced
// is the one that hold waits on.
type held struct {
	component.Component
	podidentity.Resolver
	asked chan struct{}
}

func newHeld(identities component.Component) held {
	return held{identities, identities.(podidentity.Resolver), make(chan struct{})}
}

func (h held) Synced() <-chan struct{} {
	h.asked <- struct{}{}
	return h.Resolver.Synced()
}

func (h held) waitUntilHeld() { <-h.asked; <-h.asked }

func TestHoldUntilReady(t *testing.T) {
	f := unreadyFake()
	h := newHeld(f)
	b := newBed(t, onUnready(UnreadyHold), h)
	done := b.consume(t.Context(), webMetrics(t))
	h.waitUntilHeld()
	assert.Empty(t, b.names())
	close(f.synced)
	require.NoError(t, <-done)
	assert.Equal(t, []any{"web-0"}, b.names())
}

func TestHoldEndsWithTheSendersPatience(t *testing.T) {
	h := newHeld(unreadyFake())
	b := newBed(t, onUnready(UnreadyHold), h)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	done := b.consume(ctx, webMetrics(t))
	h.waitUntilHeld()
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `identities of extension "podidentity" are not ready (on_unready is hold): context canceled`)
	assert.Empty(t, b.names())
}

// The Collector stops its receivers before its processors, and a receiver waits
// for what it has in flight: only the extension, which hears of it before them,
// can end the wait.
func TestHoldEndsWhenTheCollectorStops(t *testing.T) {
	ext := newPodidentity(t, map[string]any{
		"startup_timeout": "1h",
		"sources":         map[string]any{"cri": map[string]any{"endpoint": "unix://" + filepath.Join(t.TempDir(), "absent.sock")}},
	})
	h := newHeld(ext)
	b := newBed(t, onUnready(UnreadyHold), h)
	answers := make(chan error, 1)
	next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
		err := b.ConsumeMetrics(ctx, md)
		answers <- err
		return err
	})
	require.NoError(t, err)
	receiver := startScraping(t, next, webMetrics(t))
	h.waitUntilHeld()

	require.NoError(t, ext.(extensioncapabilities.PipelineWatcher).NotReady())
	stopped := make(chan error, 1)
	go func() { stopped <- receiver.Shutdown(context.Background()) }()
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the receiver cannot stop: its batch is held")
	}
	require.ErrorIs(t, <-answers, errStopping)
	assert.Empty(t, b.names())
}

// startScraping starts a receiver such as hnsstats is, which scrapes md once.
func startScraping(t *testing.T, next consumer.Metrics, md pmetric.Metrics) component.Component {
	kind := component.MustNewType("scraped")
	scrape, err := scraper.NewMetrics(func(context.Context) (pmetric.Metrics, error) { return md, nil })
	require.NoError(t, err)
	cfg := scraperhelper.ControllerConfig{CollectionInterval: time.Hour}
	receiver, err := scraperhelper.NewMetricsController(&cfg, receivertest.NewNopSettings(kind), next,
		scraperhelper.AddMetricsScraper(kind, scrape))
	require.NoError(t, err)
	require.NoError(t, receiver.Start(t.Context(), componenttest.NewNopHost()))
	return receiver
}
