// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// eventsFor is how long one stream of events lasts. The runtime knows this
	// deadline, and that matters: a subscriber that stops reading blocks
	// containerd's event queue and with it every RunPodSandbox on the node (seen
	// on 2.2.9 after some 1,500 events). Nothing in a process that is stopped or
	// starved can read; but at the deadline the runtime itself lets go of it.
	eventsFor = 5 * time.Second
	// eventsAfter is how long after the last change of a sandbox streams are
	// still renewed. containerd notices that a stream has ended only when it
	// sends the next event: on a quiet node, streams renewed for ever would pile
	// up in it.
	eventsAfter = time.Minute
)

// A subscription turns a runtime's events into hints while pods come and go.
type subscription struct {
	hint func()

	until   time.Time    // streams are renewed until then
	open    atomic.Bool  // there is a stream
	refused atomic.Int64 // the connection, counted from 1, on which the runtime had no events
	streams sync.WaitGroup
}

// keep has streams renewed for a while, and says whether one is missing.
func (s *subscription) keep(r *runtime) (missing bool) {
	s.until = time.Now().Add(eventsAfter)
	return s.missing(r)
}

// missing says whether a stream is to be opened. A runtime that has no events
// (containerd 1.6) is asked again only after it was restarted.
func (s *subscription) missing(r *runtime) bool {
	refused := s.refused.Load()
	return !s.open.Load() && time.Now().Before(s.until) && (refused == 0 || refused != r.dials.Load())
}

// renew opens a stream if one is missing.
func (s *subscription) renew(ctx context.Context, r *runtime) {
	if !s.missing(r) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsFor)
	stream, err := r.client.GetContainerEvents(ctx, &pb.GetEventsRequest{})
	if err != nil {
		cancel()
		return // the runtime is away, as the list will say
	}
	s.open.Store(true)
	s.streams.Go(func() {
		defer cancel()
		s.drain(stream, r)
	})
}

// drain reads a stream to its end and does nothing else: see eventsFor.
func (s *subscription) drain(stream grpc.ServerStreamingClient[pb.ContainerEventResponse], r *runtime) {
	for {
		_, err := stream.Recv()
		if err == nil {
			s.hint()
			continue
		}
		code := status.Code(err)
		if code == codes.Unimplemented {
			s.refused.Store(r.dials.Load())
		}
		s.open.Store(false)
		if code == codes.DeadlineExceeded {
			s.hint() // for the next stream; after any other end the next list is soon enough
		}
		return
	}
}

// wait waits for the streams to end after their context did.
func (s *subscription) wait() { s.streams.Wait() }
