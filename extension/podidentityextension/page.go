// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/page"
)

// A pageServer serves the page.
type pageServer struct {
	addr   net.Addr
	server *http.Server
	done   chan struct{}
}

// servePage listens where the configuration says, if it says so.
func (e *identityExtension) servePage(ctx context.Context, host component.Host) error {
	if !e.cfg.Page.HasValue() {
		return nil
	}
	cfg := &e.cfg.Page.Get().ServerConfig
	listener, err := cfg.ToListener(ctx)
	if err != nil {
		return fmt.Errorf("page: listen on %q: %w", cfg.NetAddr.Endpoint, err)
	}
	handler := page.Handler(e.cache, e.sourceStates)
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		handler = page.OnlyLocalNames(handler)
	}
	server, err := cfg.ToServer(ctx, host.GetExtensions(), e.set, handler)
	if err != nil {
		return errors.Join(fmt.Errorf("page: %w", err), listener.Close())
	}
	p := &pageServer{addr: listener.Addr(), server: server, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(fmt.Errorf("page: %w", err)))
		}
	}()
	e.page = p
	e.logger.Info("Serving the page of identities", zap.Stringer("address", listener.Addr()))
	return nil
}

// close ends the page at once: who looks at it can load it again.
func (p *pageServer) close() error {
	err := p.server.Close()
	<-p.done
	return err
}

// sourceStates are the states of all sources, push among them, by rank.
func (e *identityExtension) sourceStates() []page.Source {
	states := make([]page.Source, len(e.names))
	for rank, name := range e.names {
		states[rank] = page.Source{Name: name, Age: -1, Unconfirmed: e.cache.Unconfirmed(rank)}
	}
	if at := e.pushed.Load(); at != 0 {
		states[e.pushRank].Up = true
		states[e.pushRank].Age = max(0, time.Since(time.Unix(0, at)))
	} else {
		states[e.pushRank].Unused = states[e.pushRank].Unconfirmed == 0
	}
	for _, f := range e.sources {
		s := &states[f.rank]
		failure := f.failure()
		s.Up = f.hasSynced() && failure == nil
		if failure != nil {
			s.Failure = failure.Error()
		}
		if age, ok := f.age(); ok {
			s.Age = age
		}
		s.Failures = f.failures.Load()
	}
	return states
}
