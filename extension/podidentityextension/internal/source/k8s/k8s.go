// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package k8s is the source of identities that asks the Kubernetes API server:
// it watches pods and reports what their objects say.
//
//	API server ── list, watch ──▶ Reflector ── observation ──▶ podStore ──▶ Sink
//
// client-go's Reflector does the talking (streamed lists, bookmarks, expired
// resource versions, backoff). Behind it is no informer: the extension's cache
// already holds every pod, so the store below the reflector reduces each object
// at once and keeps only what the next event has to be compared with.
package k8s

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// podSource is the source. Start and Shutdown are not called concurrently.
type podSource struct {
	cfg     *Config
	logger  *zap.Logger
	backoff wait.Backoff

	cancel  context.CancelFunc
	stopped chan struct{}
	client  *http.Client
}

var _ source.Source = (*podSource)(nil)

// New returns a source with a validated configuration. It reads which labels
// and annotations are wanted when it is started, so the extension starts it
// once every component of the collector has.
func New(cfg *Config, set component.TelemetrySettings) (source.Source, error) {
	return &podSource{cfg: cfg, logger: set.Logger, backoff: backoff}, nil
}

// backoff is the time between attempts, which the jitter can double. It grows to
// a third of client-go's own: until the source is back, an address that changes
// hands keeps its old name.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 10, Cap: 10 * time.Second, Jitter: 1}

// Start begins to watch. It fails if the machine lacks what auth_type needs.
func (s *podSource) Start(_ context.Context, sink source.Sink) error {
	rc, err := restConfig(s.cfg)
	if err != nil {
		return err
	}
	pods, client, err := newPodsClient(rc)
	if err != nil {
		return err
	}
	s.client = client
	s.logger.Debug("Watching pods", zap.String("api_server", rc.Host), zap.String("selector", selector(s.cfg)))
	s.run(pods, rc.Host, sink)
	return nil
}

func selector(cfg *Config) string {
	if cfg.Scope == ScopeCluster {
		return ""
	}
	return fields.OneTermEqualSelector("spec.nodeName", cfg.Node).String()
}

// run starts the reflector. server is for people.
func (s *podSource) run(pods podsAPI, server string, sink source.Sink) {
	// What client-go logs is either reported by podWatch or of no use to an
	// operator, and it logs at every retry.
	silent := logr.Discard()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), silent))
	w := &podWatch{api: pods, server: server, fields: selector(s.cfg), sink: sink}
	labels, annotations := sink.Wanted()
	store := newPodStore(sink, wanted{labels, annotations}, time.Now)
	reflector := cache.NewReflectorWithOptions(w.listWatch(), &corev1.Pod{}, store, cache.ReflectorOptions{
		Logger:  &silent,
		Name:    "podidentity",
		Clock:   interruptibleClock{done: ctx.Done()},
		Backoff: &s.backoff,
	})
	s.cancel = cancel
	s.stopped = make(chan struct{})
	go func() {
		defer close(s.stopped)
		reflector.RunWithContext(ctx)
		w.lists.close()
	}()
}

// Shutdown ends the watch.
func (s *podSource) Shutdown(ctx context.Context) error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	defer func() {
		if s.client != nil {
			utilnet.CloseIdleConnectionsFor(s.client.Transport)
		}
	}()
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the watch of pods: %w", ctx.Err())
	}
}

// interruptibleClock is the real clock, except that a wait also ends with done:
// a reflector that backs off before its first list waits for nothing else.
type interruptibleClock struct {
	clock.RealClock
	done <-chan struct{}
}

// After implements clock.Clock.
func (c interruptibleClock) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	go func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
		}
		fired <- time.Now()
	}()
	return fired
}
