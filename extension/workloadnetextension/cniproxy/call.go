// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The methods of the service. They are called by name: the code that is generated
// for gRPC would ask for a newer gRPC than older containerds have.
const (
	methodAttach = "/workloadnet.v1.WorkloadNetworking/Attach"
	methodDetach = "/workloadnet.v1.WorkloadNetworking/Detach"
	methodStatus = "/workloadnet.v1.WorkloadNetworking/Status"
	methodList   = "/workloadnet.v1.WorkloadNetworking/List"
)

const (
	// callTimeout bounds a call whose caller sets no earlier deadline.
	callTimeout = 30 * time.Second
	// statusTimeout bounds Status, which the kubelet asks for every few seconds.
	statusTimeout = 5 * time.Second
)

// call makes one call over a connection of its own: there is no state in which a
// connection waits before it tries again, nor one to look after between calls.
func (p *proxy) call(ctx context.Context, timeout time.Duration, method string, req, answer proto.Message) error {
	p.mu.RLock()
	socket := p.socket
	p.mu.RUnlock()
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.DialContext(callCtx, "passthrough:///workloadnet",
		grpc.WithInsecure(), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return fmt.Errorf("workloadnet service at %s: %w: %w", socket, err, ErrCNINotInitialized)
	}
	defer conn.Close()
	if err := conn.Invoke(callCtx, method, req, answer); err != nil {
		return explain(ctx, socket, err)
	}
	return nil
}

// explain turns the service's answer into one of go-cni's errors. The gRPC status
// itself is not wrapped: the caller's own gRPC service would answer with its code,
// which is about something else there.
func explain(ctx context.Context, socket string, err error) error {
	s := status.Convert(err)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("workloadnet service at %s: %s: %w", socket, s.Message(), ctx.Err())
	case s.Code() == codes.Unavailable, s.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("workloadnet service at %s: %s: %w", socket, s.Message(), ErrCNINotInitialized)
	case s.Code() == codes.NotFound:
		return fmt.Errorf("workloadnet: %s: %w", s.Message(), ErrNotFound)
	case s.Code() == codes.InvalidArgument, s.Code() == codes.Unimplemented:
		return fmt.Errorf("workloadnet: %s: %w", s.Message(), ErrInvalidConfig)
	}
	return fmt.Errorf("workloadnet: %s (%s)", s.Message(), s.Code())
}
