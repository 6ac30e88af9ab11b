// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// service is the gRPC service.
type service struct {
	pb.UnimplementedWorkloadNetworkingServer

	logger    *zap.Logger
	publisher podidentity.Publisher
	telemetry *metadata.TelemetryBuilder
	report    func(*componentstatus.Event)

	table     *table
	addresses *addresses
	network   veth.Network
	journal   *journal.Journal
	reaper    *reaper

	stopping chan struct{} // closed when watches are to end

	failingMu sync.Mutex
	failing   bool // the storage failed the last time
}

func newService(logger *zap.Logger, publisher podidentity.Publisher, telemetry *metadata.TelemetryBuilder, report func(*componentstatus.Event)) *service {
	return &service{
		logger: logger, publisher: publisher, telemetry: telemetry, report: report,
		table: newTable(), addresses: &addresses{}, reaper: newReaper(veth.Network{}, logger), stopping: make(chan struct{}),
	}
}

func (s *service) stop() { close(s.stopping) }

// observe has the counts reported.
func (s *service) observe() error {
	err := s.telemetry.RegisterExtensionWorkloadnetAttachmentsCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(int64(s.table.len()))
		return nil
	})
	if err != nil {
		return err
	}
	states := map[string]metric.MeasurementOption{}
	for _, state := range []string{"used", "cooling", "free"} {
		states[state] = metric.WithAttributeSet(attribute.NewSet(attribute.String("state", state)))
	}
	return s.telemetry.RegisterExtensionWorkloadnetAddressesCallback(func(_ context.Context, o metric.Int64Observer) error {
		pool, _, err := s.addresses.Known()
		if err != nil {
			return nil // nothing to count yet
		}
		counts := pool.Counts(time.Now())
		o.Observe(int64(counts.Used), states["used"])
		o.Observe(int64(counts.Cooling), states["cooling"])
		o.Observe(int64(counts.Free), states["free"])
		return nil
	})
}

// Status implements the service.
func (s *service) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	pool, prefixes, err := s.addresses.Known()
	if err != nil {
		return nil, toStatus(err)
	}
	counts := pool.Counts(time.Now())
	answer := &pb.StatusResponse{
		Attachments: uint32(s.table.len()), Free: uint32(counts.Free), Cooling: uint32(counts.Cooling),
	}
	for _, p := range prefixes {
		answer.Prefixes = append(answer.Prefixes, p.String())
	}
	return answer, nil
}

// List implements the service.
func (s *service) List(_ context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	answer := &pb.ListResponse{}
	if id := req.GetWorkloadId(); id != "" {
		if a := s.table.get(id); a != nil {
			answer.Attachments = append(answer.Attachments, toProto(a))
		}
		return answer, nil
	}
	for _, a := range s.table.all() {
		answer.Attachments = append(answer.Attachments, toProto(a))
	}
	return answer, nil
}

// Watch implements the service. A client that stops reading blocks the sending
// goroutine only: the table cuts its watcher off, and the stream ends.
func (s *service) Watch(_ *pb.WatchRequest, stream pb.WorkloadNetworking_WatchServer) error {
	now, w, err := s.table.watch()
	if err != nil {
		return err
	}
	defer s.table.unwatch(w)
	sent := make(chan error, 1)
	go func() { sent <- send(stream, now, w) }()
	select {
	case err := <-sent:
		return err
	case <-w.behind:
		return status.Errorf(codes.ResourceExhausted, "the watch is cut off: it fell %d changes behind: watch again", maxBehind)
	case <-s.stopping:
		return status.Error(codes.Unavailable, "the service is shutting down")
	}
}

// send sends what is there, then what changes, until the stream or the watch ends.
func send(stream pb.WorkloadNetworking_WatchServer, now []*journal.Attachment, w *watcher) error {
	for _, a := range now {
		if err := stream.Send(&pb.WatchResponse{Event: &pb.WatchResponse_Attached{Attached: toProto(a)}}); err != nil {
			return err
		}
	}
	if err := stream.Send(&pb.WatchResponse{Event: &pb.WatchResponse_Synced{Synced: &pb.Synced{}}}); err != nil {
		return err
	}
	for {
		select {
		case e := <-w.events:
			answer := &pb.WatchResponse{Event: &pb.WatchResponse_Attached{Attached: toProto(e.attachment)}}
			if e.gone {
				answer.Event = &pb.WatchResponse_Detached{Detached: toProto(e.attachment)}
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// stored notes how a change of the storage went, and reports when that changes.
func (s *service) stored(err error) error {
	s.failingMu.Lock()
	defer s.failingMu.Unlock()
	switch {
	case err != nil && !s.failing:
		s.logger.Error("The storage fails: no workload can be attached or detached until it works again", zap.Error(err))
		s.report(componentstatus.NewRecoverableErrorEvent(err))
	case err == nil && s.failing:
		s.logger.Info("The storage works again")
		s.report(componentstatus.NewEvent(componentstatus.StatusOK))
	}
	s.failing = err != nil
	return err
}
