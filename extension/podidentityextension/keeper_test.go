// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/metadatatest"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

var storageID = component.MustNewID("file_storage")

// A life is a collector from start to stop, with the file_storage extension over
// a directory, and one scripted source.
type life struct {
	*identityExtension
	source *scripted
	tel    *componenttest.Telemetry
	logs   *observer.ObservedLogs
	end    func()
}

// fileStorage is the real extension.
func fileStorage(t *testing.T, dir string) component.Component {
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	cfg.Directory, cfg.Timeout = dir, time.Second
	ext, err := factory.Create(context.Background(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	return ext
}

func live(t *testing.T, store component.Component, interval time.Duration) *life {
	t.Helper()
	l := &life{source: &scripted{}, tel: componenttest.NewTelemetry()}
	core, logs := observer.New(zap.InfoLevel)
	l.logs = logs
	sourceTypes["scripted"] = sourceType{
		newConfig: func() component.Config { return &struct{}{} },
		newSource: func(component.Config, component.TelemetrySettings) (source.Source, error) { return l.source, nil },
	}
	t.Cleanup(func() { delete(sourceTypes, "scripted") })
	cfg := createDefaultConfig().(*Config)
	cfg.Sources[component.MustNewID("scripted")] = &struct{}{}
	cfg.Storage = storageID
	set := metadatatest.NewSettings(l.tel)
	set.Logger = zap.New(core)
	ext, err := createExtension(context.Background(), set, cfg)
	require.NoError(t, err)
	l.identityExtension = ext.(*identityExtension)
	l.keepInterval = interval
	require.Equal(t, []component.ID{storageID}, l.Dependencies())
	host := &extensions{storageID: store}
	require.NoError(t, store.Start(context.Background(), host))
	require.NoError(t, l.Start(context.Background(), host))
	l.end = sync.OnceFunc(func() {
		require.NoError(t, l.Shutdown(context.Background()))
		require.NoError(t, l.Shutdown(context.Background()))
		require.NoError(t, store.Shutdown(context.Background()))
		require.NoError(t, l.tel.Shutdown(context.Background()))
	})
	t.Cleanup(l.end)
	return l
}

type extensions map[component.ID]component.Component

func (e *extensions) GetExtensions() map[component.ID]component.Component { return *e }

func (l *life) whose(q podidentity.Query) (string, podidentity.Outcome) {
	id, outcome := l.Resolve(q)
	if id == nil {
		return "", outcome
	}
	return id.Name, outcome
}

func TestIdentitiesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	l := live(t, fileStorage(t, dir), time.Hour)
	web := pod("u1", "web-0")
	web.Identity.Labels = map[string]string{"app": "web"}
	other := pod("u2", "db-0")
	other.Addresses[0] = address.Next()
	l.source.sink.Replace([]podidentity.Record{web, other}, time.Now())
	require.NoError(t, l.Publish(podidentity.Record{Owner: "s", Sandbox: "s", Identity: podidentity.Identity{Name: "pushed"}}))
	l.end()

	l = live(t, fileStorage(t, dir), time.Hour)
	id, outcome := l.Resolve(podidentity.Query{Address: address})
	require.Equal(t, podidentity.Found, outcome)
	require.Equal(t, &web.Identity, id)
	name, _ := l.whose(podidentity.Query{Sandbox: "s"})
	require.Equal(t, "pushed", name)
	unconfirmed := func(scripted, pushed int64) {
		t.Helper()
		by := func(source string, n int64) metricdata.DataPoint[int64] {
			return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("source", source)), Value: n}
		}
		metadatatest.AssertEqualExtensionPodidentityUnconfirmed(t, l.tel, []metricdata.DataPoint[int64]{
			by("scripted", scripted), by("push", pushed),
		}, metricdatatest.IgnoreTimestamp())
	}
	unconfirmed(2, 1)
	require.NoError(t, l.Ready()) // whoever publishes has done so
	unconfirmed(2, 0)
	_, outcome = l.Resolve(podidentity.Query{Sandbox: "s"})
	require.Equal(t, podidentity.Ended, outcome)

	l.source.sink.Put(other)
	unconfirmed(1, 0)
	l.source.sink.Synced()
	unconfirmed(0, 0)
	_, outcome = l.Resolve(podidentity.Query{Address: address})
	require.Equal(t, podidentity.Ended, outcome)
	name, _ = l.whose(podidentity.Query{UID: "u2"})
	require.Equal(t, "db-0", name)
	l.end()

	l = live(t, fileStorage(t, dir), time.Hour)
	require.Equal(t, 1, l.cache.Pods(), "what ended is not kept")
}

// What a killed collector wrote before is there.
func TestChangesAreWrittenInTheBackground(t *testing.T) {
	store := &memory{wrote: make(chan struct{}, 1)}
	l := live(t, store, time.Millisecond)
	l.source.sink.Put(pod("u1", "web-0"))
	await(t, store.wrote, "a write")
	l.source.sink.Put(pod("u1", "web-0")) // says nothing new
	l.source.sink.Synced()
	writes := store.writes()
	l.source.sink.Put(pod("u2", "web-1"))
	await(t, store.wrote, "a write")
	require.Equal(t, writes+1, store.writes())
	killed := &memory{value: store.value, wrote: make(chan struct{}, 1)}
	l.end()

	l = live(t, killed, time.Hour)
	name, _ := l.whose(podidentity.Query{UID: "u2"})
	require.Equal(t, "web-1", name)
}

// What a restart takes over is known to have held until the collector stopped.
func TestShutdownWritesWhenIdentitiesHeldLast(t *testing.T) {
	store := &memory{wrote: make(chan struct{}, 1)}
	l := live(t, store, time.Millisecond)
	l.source.sink.Put(pod("u1", "web-0"))
	await(t, store.wrote, "a write")
	writes := store.writes()
	l.end()
	require.Equal(t, writes+1, store.writes())
}

func TestMetricsCanBeReadDuringTheStart(t *testing.T) {
	tel := componenttest.NewTelemetry()
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = storageID
	e, err := newExtension(cfg, tel.NewTelemetrySettings())
	require.NoError(t, err)
	started, read := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for {
			err = errors.Join(err, tel.Reader.Collect(context.Background(), &metricdata.ResourceMetrics{}))
			select {
			case <-started:
				read <- err
				return
			default:
			}
		}
	}()
	require.NoError(t, e.Start(context.Background(), &extensions{storageID: &memory{wrote: make(chan struct{}, 1)}}))
	close(started)
	require.NoError(t, <-read)
	require.NoError(t, e.Shutdown(context.Background()))
	require.NoError(t, tel.Shutdown(context.Background()))
}

func TestDamagedStoreIsReportedOnceAndIgnored(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"file": func(t *testing.T, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "*podidentity*"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.WriteFile(files[0], make([]byte, 32<<10), 0o600))
		},
		"value": func(t *testing.T, dir string) {
			ext := fileStorage(t, dir)
			require.NoError(t, ext.Start(context.Background(), componenttest.NewNopHost()))
			client, err := ext.(storage.Extension).GetClient(context.Background(), component.KindExtension, component.MustNewID("podidentity"), "")
			require.NoError(t, err)
			value, err := client.Get(context.Background(), storageKey)
			require.NoError(t, err)
			require.NoError(t, client.Set(context.Background(), storageKey, value[:len(value)/2]))
			require.NoError(t, client.Close(context.Background()))
			require.NoError(t, ext.Shutdown(context.Background()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := live(t, fileStorage(t, dir), time.Hour)
			l.source.sink.Replace([]podidentity.Record{pod("u1", "web-0")}, time.Now())
			l.end()
			damage(t, dir)

			l = live(t, fileStorage(t, dir), time.Hour)
			require.Zero(t, l.cache.Pods())
			l.source.sink.Replace([]podidentity.Record{pod("u1", "web-0")}, time.Now())
			got, _ := l.whose(podidentity.Query{Address: address})
			require.Equal(t, "web-0", got)
			l.end()
			require.Equal(t, 1, l.logs.FilterLevelExact(zap.ErrorLevel).Len(), "%v", l.logs.All())
			require.Contains(t, l.logs.FilterLevelExact(zap.ErrorLevel).All()[0].ContextMap(), "error")

			if name == "value" { // it is written anew
				l = live(t, fileStorage(t, dir), time.Hour)
				require.Equal(t, 1, l.cache.Pods())
				require.Zero(t, l.logs.FilterLevelExact(zap.ErrorLevel).Len())
			}
		})
	}
}

func TestFailingStorageIsReportedOnce(t *testing.T) {
	store := &memory{wrote: make(chan struct{}, 1)}
	store.fail(errors.New("disk full"))
	l := live(t, store, time.Millisecond)
	l.source.sink.Put(pod("u1", "web-0"))
	for range 3 {
		await(t, store.wrote, "a write")
	}
	require.Equal(t, 1, l.logs.FilterMessageSnippet("could not be written").Len())
	store.fail(nil)
	require.Eventually(t, func() bool {
		return l.logs.FilterMessageSnippet("written to the storage again").Len() == 1
	}, 30*time.Second, time.Millisecond)
}

func TestStorageMustBeOne(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = storageID
	for want, host := range map[string]*extensions{
		`storage: there is no extension "file_storage"`:                    {},
		`storage: the extension "file_storage" is not a storage extension`: {storageID: &identityExtension{}},
	} {
		e, err := newExtension(cfg, componenttest.NewNopTelemetrySettings())
		require.NoError(t, err)
		require.ErrorContains(t, e.Start(context.Background(), host), want)
	}
}

// memory is a fake storage extension whose writes the test can see and fail: the
// real one fails when a disk does.
type memory struct {
	component.StartFunc
	component.ShutdownFunc
	storage.Client // nil: nothing else is called

	mu    sync.Mutex
	value []byte
	err   error
	n     int
	wrote chan struct{}
}

func (m *memory) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return m, nil
}

func (m *memory) Get(context.Context, string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value, nil
}

func (m *memory) Set(_ context.Context, _ string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	if m.err == nil {
		m.value = value
	}
	select {
	case m.wrote <- struct{}{}:
	default:
	}
	return m.err
}

func (m *memory) Close(context.Context) error { return nil }

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}
