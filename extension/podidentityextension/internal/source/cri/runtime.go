// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is what the kubelet and crictl allow: a list of sandboxes can pass
// gRPC's 4 MB.
const maxMessage = 16 << 20

// A runtime is a connection to a container runtime. When it breaks, the next call
// makes it again.
type runtime struct {
	socket socket
	conn   *grpc.ClientConn
	client pb.RuntimeServiceClient

	dials   atomic.Int64
	dialErr atomic.Pointer[error] // of the last dial, nil if it succeeded
}

// knock tries whether anybody answers.
func knock(ctx context.Context, s socket) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return fmt.Errorf("connect to the container runtime at %s: %w%s", s, err, dialHint(err))
	}
	return conn.Close()
}

// connect returns without waiting for the runtime. dials is how many connections
// were made before.
func connect(s socket, dials int64) (*runtime, error) {
	r := &runtime{socket: s}
	r.dials.Store(dials)
	conn, err := grpc.NewClient("passthrough:///"+s.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(),
		// The source waits between its attempts; gRPC need not wait more.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s, err)
	}
	r.conn, r.client = conn, pb.NewRuntimeServiceClient(conn)
	return r, nil
}

func (r *runtime) dial(ctx context.Context) (net.Conn, error) {
	conn, err := dial(ctx, r.socket)
	if err != nil {
		r.dialErr.Store(&err)
		return nil, err
	}
	r.dialErr.Store(nil)
	r.dials.Add(1)
	return conn, nil
}

func (r *runtime) close() { _ = r.conn.Close() }

// explain says on what a call failed, and what to do where that is known.
func (r *runtime) explain(what string, err error) error {
	hint := ""
	if dialErr := r.dialErr.Load(); dialErr != nil {
		hint = dialHint(*dialErr)
	} else if status.Code(err) == codes.Unimplemented {
		hint = ": the runtime does not serve CRI v1 there; is its CRI plugin on?"
	}
	return fmt.Errorf("%s on %s: %w%s", what, r.socket, err, hint)
}

func dialHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ": " + deniedHint
	case errors.Is(err, fs.ErrNotExist):
		return ": is the runtime running, and is endpoint right?"
	}
	return ""
}
