// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// An answer is what one status call told of a sandbox.
type answer struct {
	record     podidentity.Record
	sandbox    sandbox
	gone       bool  // no longer there, or no longer READY
	err        error // the sandbox cannot be named
	unanswered bool  // because the runtime did not answer
	netnsPath  string
	netnsErr   error // what does not keep the pod from being known
}

// ask asks for a sandbox's status, with the verbose information the first time:
// one call, whose status is the same either way.
func (o *observer) ask(ctx context.Context, id string, s sandbox) answer {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	s.asked = min(s.asked+1, soonAsks)
	response, err := o.runtime.client.PodSandboxStatus(ctx, &pb.PodSandboxStatusRequest{
		PodSandboxId: id,
		Verbose:      verbose && !s.verbose,
	})
	if err != nil {
		err = o.runtime.explain("ask for the status of sandbox "+id, err)
	}
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound:
		return answer{gone: true}
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented:
		return answer{err: err, unanswered: true}
	default: // the runtime has trouble with this sandbox
		s.broken = true
		return answer{err: err, sandbox: s}
	}
	if response.GetStatus().GetState() != pb.PodSandboxState_SANDBOX_READY {
		return answer{gone: true}
	}
	record, complete, err := recordOf(id, response.GetStatus())
	if err != nil {
		s.broken = true
		return answer{err: fmt.Errorf("ask for the status of sandbox %s on %s: %w", id, o.runtime.socket, err), sandbox: s}
	}
	a := answer{record: record}
	if verbose && !s.verbose && !record.HostNetwork {
		a.netnsPath, a.netnsErr = networkNamespace(response.GetInfo())
		if a.netnsErr == nil && a.netnsPath != "" {
			s.netns, a.netnsErr = netnsInode(a.netnsPath)
		}
	}
	s.verbose, s.complete, s.broken = true, complete, false
	a.record.NetNS, a.sandbox = s.netns, s
	return a
}
