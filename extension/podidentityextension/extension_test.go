// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/metadatatest"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// scripted is a fake source: it says what the test lets it say. The real ones
// have their own tests.
type scripted struct {
	sink     source.Sink
	shutdown int
}

func (s *scripted) Start(_ context.Context, sink source.Sink) error {
	s.sink = sink
	return nil
}

func (s *scripted) Shutdown(context.Context) error {
	s.shutdown++
	return nil
}

// statuses is a host that keeps the statuses reported to it.
type statuses struct {
	mu     sync.Mutex
	events []*componentstatus.Event
}

func (h *statuses) GetExtensions() map[component.ID]component.Component { return nil }

func (h *statuses) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// A rig is a started extension with scripted sources.
type rig struct {
	*identityExtension
	a, b *scripted
	host *statuses
	tel  *componenttest.Telemetry
	logs *observer.ObservedLogs
}

func newRig(t *testing.T, startup time.Duration) *rig {
	r := &rig{a: &scripted{}, b: &scripted{}, host: &statuses{}, tel: componenttest.NewTelemetry()}
	core, logs := observer.New(zap.InfoLevel)
	r.logs = logs
	for name, s := range map[string]*scripted{"scripteda": r.a, "scriptedb": r.b} {
		sourceTypes[name] = sourceType{
			newConfig: func() component.Config { return &struct{}{} },
			newSource: func(component.Config, component.TelemetrySettings) (source.Source, error) { return s, nil },
		}
		t.Cleanup(func() { delete(sourceTypes, name) })
	}
	cfg := createDefaultConfig().(*Config)
	cfg.StartupTimeout = startup
	cfg.Sources[component.MustNewID("scripteda")] = &struct{}{}
	cfg.Sources[component.MustNewID("scriptedb")] = &struct{}{}
	cfg.Precedence = []string{"scriptedb", "push", "scripteda"}
	set := metadatatest.NewSettings(r.tel)
	set.Logger = zap.New(core)
	ext, err := createExtension(context.Background(), set, cfg)
	require.NoError(t, err)
	r.identityExtension = ext.(*identityExtension)
	require.NoError(t, r.Start(context.Background(), r.host))
	require.NoError(t, r.identityExtension.Ready())
	t.Cleanup(func() {
		require.NoError(t, r.Shutdown(context.Background()))
		require.NoError(t, r.Shutdown(context.Background()))
		require.NoError(t, r.tel.Shutdown(context.Background()))
	})
	return r
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "waited in vain for "+what)
	}
}

var address = netip.MustParseAddr("10.0.0.1")

func pod(owner, name string) podidentity.Record {
	return podidentity.Record{Owner: owner, Identity: podidentity.Identity{Name: name, UID: owner}, Addresses: []netip.Addr{address}}
}

func TestPublish(t *testing.T) {
	r := newRig(t, time.Hour)
	require.NoError(t, r.Publish(pod("u1", "web-0")))
	id, outcome := r.Resolve(podidentity.Query{Address: address})
	require.Equal(t, podidentity.Found, outcome)
	require.Equal(t, "web-0", id.Name)
	r.End("u1", time.Time{})
	r.End("u1", time.Time{})
	_, outcome = r.Resolve(podidentity.Query{Address: address})
	require.Equal(t, podidentity.Ended, outcome)

	for want, bad := range map[string]podidentity.Record{
		"no Owner":         {Identity: podidentity.Identity{Name: "x", UID: "u"}},
		"no Identity.Name": {Owner: "o", Sandbox: "s"},
		"no key":           {Owner: "o", Identity: podidentity.Identity{Name: "x"}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
	} {
		require.ErrorContains(t, r.Publish(bad), want)
	}
}

func TestPrecedence(t *testing.T) {
	r := newRig(t, time.Hour)
	said := func(value string) podidentity.Record {
		p := pod("u1", "web-0")
		p.Identity.Labels = map[string]string{"said": value}
		return p
	}
	label := func() string {
		id, outcome := r.Resolve(podidentity.Query{UID: "u1"})
		require.Equal(t, podidentity.Found, outcome)
		return id.Labels["said"]
	}
	r.a.sink.Put(said("a"))
	require.Equal(t, "a", label())
	require.NoError(t, r.Publish(said("push")))
	require.Equal(t, "push", label())
	r.b.sink.Replace([]podidentity.Record{said("b")}, time.Now())
	require.Equal(t, "b", label())
}

func TestSyncedWhenEverySourceHas(t *testing.T) {
	r := newRig(t, time.Hour)
	require.False(t, isClosed(r.Synced()))
	r.a.sink.Put(pod("u1", "web-0"))
	r.a.sink.Synced()
	r.a.sink.Synced()
	require.False(t, isClosed(r.Synced()))
	r.b.sink.Failed(errors.New("no answer"))
	require.False(t, isClosed(r.Synced()))
	r.b.sink.Replace(nil, time.Now())
	require.True(t, isClosed(r.Synced()))
}

func TestSyncedAfterStartupTimeout(t *testing.T) {
	r := newRig(t, time.Millisecond)
	await(t, r.Synced(), "the startup timeout")
	late := r.logs.FilterMessageSnippet("Going on without the first answer").All()
	require.Len(t, late, 1)
	require.Equal(t, []any{"scriptedb", "scripteda"}, late[0].ContextMap()["sources"])
	r.a.sink.Synced()
	r.b.sink.Synced()
}

func TestWithoutSources(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	e, err := newExtension(createDefaultConfig().(*Config), set)
	require.NoError(t, err)
	require.NoError(t, e.Start(context.Background(), componenttest.NewNopHost()))
	await(t, e.Synced(), "nobody")
	require.Equal(t, 1, logs.FilterMessageSnippet("No sources are configured").Len())
	require.NoError(t, e.Publish(pod("u1", "web-0")))
	require.NoError(t, e.Shutdown(context.Background()))
}

func TestStatusIsReportedOnChangeOnly(t *testing.T) {
	r := newRig(t, time.Hour)
	r.a.sink.Synced()
	r.b.sink.Synced()
	require.Empty(t, r.host.events)

	r.a.sink.Failed(errors.New("socket is gone"))
	r.a.sink.Failed(errors.New("socket is gone"))
	require.Len(t, r.host.events, 1)
	require.Equal(t, componentstatus.StatusRecoverableError, r.host.events[0].Status())
	require.EqualError(t, r.host.events[0].Err(), `source "scripteda" is down: socket is gone`)

	r.b.sink.Failed(errors.New("file is empty"))
	require.Len(t, r.host.events, 2)
	require.ErrorContains(t, r.host.events[1].Err(), `source "scripteda" is down`)
	require.ErrorContains(t, r.host.events[1].Err(), `source "scriptedb" is down: file is empty`)

	r.a.sink.Synced()
	require.Len(t, r.host.events, 3)
	require.EqualError(t, r.host.events[2].Err(), `source "scriptedb" is down: file is empty`)
	r.b.sink.Replace(nil, time.Now())
	r.b.sink.Synced()
	require.Len(t, r.host.events, 4)
	require.Equal(t, componentstatus.StatusOK, r.host.events[3].Status())
	require.Equal(t, 2, r.logs.FilterMessageSnippet("The source is down").Len())
	require.Equal(t, 2, r.logs.FilterMessageSnippet("The source answers again").Len())

	require.Zero(t, r.logs.FilterMessageSnippet("still down").Len())

	require.NoError(t, r.Shutdown(context.Background()))
	r.a.sink.Failed(errors.New("cut off by the shutdown"))
	require.Len(t, r.host.events, 4)
}

func TestAnotherReasonOfASourceThatIsDown(t *testing.T) {
	r := newRig(t, time.Hour)
	still := func() (reasons []any) {
		for _, e := range r.logs.FilterMessageSnippet("The source is still down, for another reason").All() {
			reasons = append(reasons, e.ContextMap()["error"])
		}
		return reasons
	}
	r.a.sink.Failed(errors.New("socket is gone"))
	r.a.sink.Failed(errors.New("permission denied"))
	r.a.sink.Failed(errors.New("permission denied"))
	r.a.sink.Failed(errors.New("socket is gone"))
	require.Equal(t, []any{"permission denied"}, still())
	require.EqualError(t, r.host.events[len(r.host.events)-1].Err(), `source "scripteda" is down: permission denied`)
	for i := range 50 { // one that is new at every attempt
		r.a.sink.Failed(fmt.Errorf("connection from port %d was reset", i))
	}
	require.Len(t, still(), maxReasons-1)
	r.a.sink.Synced()
	r.a.sink.Failed(errors.New("socket is gone"))
	require.Equal(t, 2, r.logs.FilterMessageSnippet("The source is down").Len())
	r.a.sink.Failed(errors.New("permission denied"))
	require.Len(t, still(), maxReasons)
}

func TestMissedLookupAsksEverySource(t *testing.T) {
	r := newRig(t, time.Hour)
	miss := func() { r.Resolve(podidentity.Query{Address: address}) }
	var first time.Time
	require.Eventually(t, func() bool { // until the extension listens
		miss()
		first = time.Now()
		return len(r.a.sink.Refresh()) > 0
	}, 30*time.Second, time.Millisecond)
	await(t, r.a.sink.Refresh(), "the first signal")
	await(t, r.b.sink.Refresh(), "the first signal")
	require.Eventually(t, func() bool { // the next one comes, but not at once
		miss()
		return len(r.a.sink.Refresh()) > 0
	}, 30*time.Second, time.Millisecond)
	require.Greater(t, time.Since(first), refreshInterval/2)
}

func TestOwnMetrics(t *testing.T) {
	r := newRig(t, time.Hour)
	by := func(key, value string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String(key, value)), Value: n}
	}
	now := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualExtensionPodidentitySourceUp(t, r.tel, []metricdata.DataPoint[int64]{
		by("source", "scripteda", 0), by("source", "scriptedb", 0),
	}, now)

	r.a.sink.Replace([]podidentity.Record{pod("u1", "web-0")}, time.Now())
	r.b.sink.Synced()
	r.b.sink.Failed(errors.New("no answer"))
	require.NoError(t, r.Publish(podidentity.Record{Owner: "x", Sandbox: "x", Identity: podidentity.Identity{Name: "x"}}))
	r.Resolve(podidentity.Query{Address: address})
	r.Resolve(podidentity.Query{Address: address})
	r.Resolve(podidentity.Query{UID: "u2"})
	r.Resolve(podidentity.Query{UID: "u2", Address: address})

	metadatatest.AssertEqualExtensionPodidentityPods(t, r.tel, []metricdata.DataPoint[int64]{{Value: 2}}, now)
	metadatatest.AssertEqualExtensionPodidentityLookups(t, r.tel, []metricdata.DataPoint[int64]{
		by("outcome", "found", 2), by("outcome", "unknown", 1), by("outcome", "mismatch", 1),
		by("outcome", "ambiguous", 0), by("outcome", "ended", 0),
	}, now)
	metadatatest.AssertEqualExtensionPodidentitySourceUp(t, r.tel, []metricdata.DataPoint[int64]{
		by("source", "scripteda", 1), by("source", "scriptedb", 0), by("source", "push", 1),
	}, now)
	metadatatest.AssertEqualExtensionPodidentitySourceFailures(t, r.tel, []metricdata.DataPoint[int64]{
		by("source", "scripteda", 0), by("source", "scriptedb", 1),
	}, now)
	age, err := r.tel.GetMetric("otelcol_extension_podidentity_source_last_success_age")
	require.NoError(t, err)
	points := age.Data.(metricdata.Gauge[float64]).DataPoints
	require.Len(t, points, 3)
	for _, p := range points {
		require.GreaterOrEqual(t, p.Value, 0.0)
		require.Less(t, p.Value, 60.0)
	}
}

func TestStoppingBeforeShutdown(t *testing.T) {
	r := newRig(t, time.Hour)
	require.False(t, isClosed(r.Stopping()))
	require.NoError(t, r.NotReady())
	require.True(t, isClosed(r.Stopping()))
	require.NoError(t, r.NotReady())
	require.False(t, isClosed(r.Synced()), "nobody may take it for an answer of the sources")
}

func TestNotReadyWithoutStart(t *testing.T) {
	e, err := newExtension(createDefaultConfig().(*Config), componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, e.NotReady())
	require.True(t, isClosed(e.Stopping()))
	require.NoError(t, e.Shutdown(context.Background()))
}

func TestShutdownWithoutStart(t *testing.T) {
	e, err := newExtension(createDefaultConfig().(*Config), componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, e.Shutdown(context.Background()))
}
