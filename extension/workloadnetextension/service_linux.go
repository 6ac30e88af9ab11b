// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

	probing atomic.Bool // Status is trying a storage that has failed

	wrongMu sync.Mutex
	wrong   [numConcerns]error // nil where nothing is
}

// concern is something without which no workload can be attached.
type concern int

const (
	theStorage concern = iota
	thePrefixes
	numConcerns
)

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
	if err := s.storageError(); err != nil {
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

// stored notes how a change of the storage went, and logs when that changes.
func (s *service) stored(err error) error {
	before := s.note(theStorage, err)
	switch {
	case err != nil && before == nil:
		s.logger.Error("The storage fails: no workload can be attached or detached until it works again", zap.Error(err))
	case err == nil && before != nil:
		s.logger.Info("The storage works again")
	}
	return err
}

// note takes down what is wrong with c, nil if nothing is, and returns what was
// before. The component's status is all that is wrong, and is reported when it
// changes.
func (s *service) note(c concern, err error) (before error) {
	s.wrongMu.Lock() // also while reporting: reports keep the order of the changes
	defer s.wrongMu.Unlock()
	before, s.wrong[c] = s.wrong[c], err
	if fmt.Sprint(before) == fmt.Sprint(err) {
		return before
	}
	event := componentstatus.NewEvent(componentstatus.StatusOK)
	if all := errors.Join(s.wrong[:]...); all != nil {
		event = componentstatus.NewRecoverableErrorEvent(all)
	}
	s.report(event)
	return before
}

// storageError is nil if the storage works, as far as is known. One that has failed
// is tried again, by one caller at a time; to the others it still fails.
func (s *service) storageError() error {
	s.wrongMu.Lock()
	err := s.wrong[theStorage]
	s.wrongMu.Unlock()
	if err == nil || !s.probing.CompareAndSwap(false, true) {
		return err
	}
	defer s.probing.Store(false)
	return s.stored(s.journal.Probe())
}
