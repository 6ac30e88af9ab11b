// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// An answer is what the runtime told of one sandbox.
type answer struct {
	id         string
	record     podidentity.Record
	complete   bool  // the record has its addresses, or will never have any
	gone       bool  // no longer there, or no longer READY
	err        error // the sandbox cannot be named
	unanswered bool  // because the runtime did not answer
	late       bool  // a call ran into its deadline

	verbose   bool // the verbose information was read: what follows is known
	netns     uint64
	netnsPath string
	netnsErr  error // what does not keep the pod from being known
}

// ask asks for a sandbox's status, with the verbose information where that is
// wanted: one call, whose status is the same either way. For the verbose
// information containerd asks the sandbox's shim, which may hang or be no more; the
// status alone comes even then.
func ask(ctx context.Context, r *runtime, timeout time.Duration, id string, verbosely bool) answer {
	a := answer{id: id, verbose: verbosely}
	response, err := r.status(ctx, timeout, id, verbosely)
	if verbosely && tellsPlainly(err) {
		a.late = status.Code(err) == codes.DeadlineExceeded
		a.verbose, a.netnsErr = false, err
		response, err = r.status(ctx, timeout, id, false)
	}
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound:
		a.gone = true
		return a
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented:
		a.err, a.unanswered = err, true
		a.late = a.late || status.Code(err) == codes.DeadlineExceeded
		return a
	default: // the runtime has trouble with this sandbox
		a.err = err
		return a
	}
	if response.GetStatus().GetState() != pb.PodSandboxState_SANDBOX_READY {
		a.gone = true
		return a
	}
	if a.record, a.complete, err = recordOf(id, response.GetStatus()); err != nil {
		a.err = fmt.Errorf("ask for the status of sandbox %s on %s: %w", id, r.socket, err)
		return a
	}
	if a.verbose && !a.record.HostNetwork {
		a.netnsPath, a.netnsErr = networkNamespace(response.GetInfo())
		if a.netnsErr == nil && a.netnsPath != "" {
			a.netns, a.netnsErr = netnsInode(a.netnsPath)
		}
	}
	return a
}

// tellsPlainly says whether, after what was said to a verbose call, the status alone
// may come.
func tellsPlainly(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.NotFound, codes.Unavailable, codes.Canceled, codes.Unimplemented:
		return false
	}
	return true
}

func (r *runtime) status(ctx context.Context, timeout time.Duration, id string, verbosely bool) (*pb.PodSandboxStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := r.client.PodSandboxStatus(ctx, &pb.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbosely})
	if err != nil {
		return nil, r.explain("ask for the status of sandbox "+id, err)
	}
	return response, nil
}
