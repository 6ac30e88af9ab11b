// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

var _ extensioncapabilities.Dependent = (*workloadnetExtension)(nil)

type workloadnetExtension struct {
	cfg      *Config
	id       component.ID
	logger   *zap.Logger
	settings component.TelemetrySettings

	telemetry *metadata.TelemetryBuilder
	service   *service
	listener  *socketListener // until server has it
	server    *grpc.Server

	cancel     context.CancelFunc // ends the goroutines below
	goroutines sync.WaitGroup

	recheck time.Duration // how often the node's podCIDRs are asked for, about
}

// podCIDRsRecheck: they change only when the node is deleted and registered anew.
const podCIDRsRecheck = 5 * time.Minute

func newExtension(set extension.Settings, cfg *Config) (*workloadnetExtension, error) {
	return &workloadnetExtension{cfg: cfg, id: set.ID, logger: set.Logger, settings: set.TelemetrySettings, recheck: podCIDRsRecheck}, nil
}

// Dependencies has the Collector start the extensions first that Start looks up.
func (e *workloadnetExtension) Dependencies() []component.ID {
	return []component.ID{e.cfg.Identity, e.cfg.Storage}
}

// Start returns when the service answers: what is attached is known, published
// and in working order again by then.
func (e *workloadnetExtension) Start(ctx context.Context, host component.Host) error {
	err := e.start(ctx, host)
	if err != nil {
		err = errors.Join(err, e.Shutdown(ctx))
	}
	return err
}

func (e *workloadnetExtension) start(ctx context.Context, host component.Host) error {
	if err := checkCapabilities(); err != nil {
		return err
	}
	publisher, err := lookUp[podidentity.Publisher](host, "identity", e.cfg.Identity, "podidentity")
	if err != nil {
		return err
	}
	store, err := lookUp[storage.Extension](host, "storage", e.cfg.Storage, "storage")
	if err != nil {
		return err
	}
	// First of all: a second collector must not touch the first one's links.
	if e.listener, err = listen(strings.TrimPrefix(e.cfg.Endpoint, unixScheme)); err != nil {
		return fmt.Errorf("endpoint: %q: %w", e.cfg.Endpoint, err)
	}
	if e.telemetry, err = metadata.NewTelemetryBuilder(e.settings); err != nil {
		return err
	}
	e.service = newService(e.logger, publisher, e.telemetry, func(event *componentstatus.Event) { componentstatus.ReportStatus(host, event) })
	e.service.addresses.coolDown = e.cfg.CoolDown
	if err := e.service.observe(); err != nil {
		return err
	}
	if err := e.openJournal(ctx, store); err != nil {
		return err
	}
	e.serve()
	return nil
}

// lookUp finds the extension that a key of the configuration names.
func lookUp[T any](host component.Host, key string, id component.ID, kind string) (T, error) {
	var none T
	ext, ok := host.GetExtensions()[id]
	if !ok {
		return none, fmt.Errorf("%s: there is no extension %q: add it to extensions and to service::extensions", key, id)
	}
	t, ok := ext.(T)
	if !ok {
		return none, fmt.Errorf("%s: the extension %q is not a %s extension", key, id, kind)
	}
	return t, nil
}

// openJournal reads what was attached, brings it into line with the links that
// are there, and has the service notice links that go.
func (e *workloadnetExtension) openJournal(ctx context.Context, store storage.Extension) error {
	client, err := store.GetClient(ctx, component.KindExtension, e.id, "")
	if err != nil {
		return fmt.Errorf("storage: %q: %w", e.cfg.Storage, err)
	}
	j, loaded, err := journal.Open(ctx, client, e.cfg.CoolDown)
	if err != nil {
		return errors.Join(fmt.Errorf("storage: %q: %w", e.cfg.Storage, err), client.Close(ctx))
	}
	e.service.journal = j
	for key, err := range loaded.Damaged {
		e.logger.Error("A part of the storage is damaged: the workloads in it stay connected, but their names are not known",
			zap.String("storage", e.cfg.Storage.String()), zap.String("key", key), zap.Error(err))
	}
	if err := loaded.DamagedPrefixes; err != nil {
		e.logger.Error("A part of the storage is damaged: the node's podCIDRs are not known until the API server has told them",
			zap.String("storage", e.cfg.Storage.String()), zap.Error(err))
	}
	// First the subscription, then the list: no deletion falls in between.
	watch, err := veth.NewWatch()
	if err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	run, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	if err := e.usePrefixes(run); err != nil {
		watch.Close()
		watch.Drain()
		return err
	}
	e.goroutines.Go(func() { e.service.reaper.run(run) })
	if err := e.service.reconcile(loaded); err != nil {
		watch.Close()
		watch.Drain()
		return err
	}
	e.goroutines.Go(func() { e.service.watchLinks(run, watch) })
	return nil
}

func (e *workloadnetExtension) usePrefixes(run context.Context) error {
	if e.cfg.K8s.HasValue() {
		return e.usePodCIDRs(run, *e.cfg.K8s.Get())
	}
	return e.use(e.cfg.Prefixes)
}

// serve answers those who have connected since Start, and who will.
func (e *workloadnetExtension) serve() {
	server := newServer(e.service, e.logger) // Shutdown may be done with e.server before Serve begins
	e.server = server
	pb.RegisterWorkloadNetworkingServer(e.server, e.service)
	listener := e.listener
	e.listener = nil
	e.goroutines.Go(func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, grpc.ErrServerStopped) {
			e.service.report(componentstatus.NewFatalErrorEvent(fmt.Errorf("endpoint: %q: %w", e.cfg.Endpoint, err)))
		}
	})
	_, prefixes, _ := e.service.addresses.Known()
	e.logger.Info("Workload network service ready", zap.String("endpoint", e.cfg.Endpoint),
		zap.Stringers("prefixes", prefixes), zap.Int("attachments", e.service.table.len()))
}

// stopTimeout is how long calls under way have to end at Shutdown.
const stopTimeout = 5 * time.Second

// Shutdown ends the service. Workloads stay connected: their links and routes are
// the kernel's.
func (e *workloadnetExtension) Shutdown(ctx context.Context) error {
	if e.server != nil {
		e.service.stop() // ends the watches, which would last for ever
		// A client that does not read would keep a graceful stop waiting for ever.
		kill := time.AfterFunc(stopTimeout, e.server.Stop)
		e.server.GracefulStop()
		kill.Stop()
		e.server = nil
	}
	if e.cancel != nil {
		e.cancel()
		e.cancel = nil
	}
	e.goroutines.Wait()
	var err error
	if e.listener != nil {
		err = e.listener.Close()
		e.listener = nil
	}
	if e.service != nil && e.service.journal != nil {
		err = errors.Join(err, e.service.journal.Close(ctx))
	}
	if e.telemetry != nil {
		e.telemetry.Shutdown()
	}
	return err
}
