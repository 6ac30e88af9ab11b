// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// find connects to the runtime and lists its sandboxes. Where its place is not
// configured, that is the first usual place where a runtime answers, and not the
// first where somebody listens: on a node with cri-dockerd, that is Docker's own
// containerd, whose CRI is off. Once one has answered it is the node's, whatever
// else answers while it is away: another one's list would end all its sandboxes.
func (o *observer) find(ctx context.Context) (items []*pb.PodSandbox, at time.Time, err error) {
	places := o.found
	if places == nil {
		if places, err = findEndpoints(o.cfg.Endpoint); err != nil {
			return nil, time.Time{}, err
		}
	}
	if len(places) == 1 {
		return o.try(ctx, places[0])
	}
	var absent []string
	var said error
	for _, s := range places {
		if !exists(s) {
			absent = append(absent, s.String())
			continue
		}
		items, at, err := o.try(ctx, s)
		if err == nil {
			o.found = []socket{s}
			o.logger.Info("Found the container runtime", zap.Stringer("endpoint", s))
			return items, at, nil
		}
		if said == nil {
			said = err
		} else {
			said = fmt.Errorf("%w; %w", said, err)
		}
		if !elsewhere(err) {
			return nil, time.Time{}, said
		}
	}
	return nil, time.Time{}, notFound(said, absent)
}

// exists says whether there is something at a place. Where that cannot be seen (it
// is denied us, or all of a pipe is in use), dialling tells.
func exists(s socket) bool {
	_, err := os.Stat(s.address)
	return !errors.Is(err, fs.ErrNotExist)
}

// elsewhere says whether the runtime may be elsewhere, after what was said at one
// place. One that is slow or denies us access is one.
func elsewhere(err error) bool {
	return status.Code(err) == codes.Unimplemented || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// notFound says which places were looked at, and what each said.
func notFound(said error, absent []string) error {
	const hint = "set endpoint to where it listens"
	places := strings.Join(absent, ", ")
	switch {
	case said == nil:
		return fmt.Errorf("found no container runtime at %s: %s", places, hint)
	case places == "":
		return fmt.Errorf("found no container runtime: %w; %s", said, hint)
	}
	return fmt.Errorf("found no container runtime: %w; there is nothing at %s; %s", said, places, hint)
}

// try connects to a runtime and lists its sandboxes. One that is away is knocked
// at before there is a connection, see giveUp.
func (o *observer) try(ctx context.Context, s socket) (items []*pb.PodSandbox, at time.Time, err error) {
	knockCtx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	err = knock(knockCtx, s)
	cancel()
	if err != nil {
		return nil, time.Time{}, err
	}
	if o.runtime, err = connect(s, o.dials); err != nil {
		return nil, time.Time{}, err
	}
	if items, at, err = o.sandboxes(ctx); err != nil {
		o.giveUp()
	}
	return items, at, err
}

// sandboxes lists the sandboxes of the runtime there is a connection to, as they
// were at the given time or later.
func (o *observer) sandboxes(ctx context.Context) (items []*pb.PodSandbox, at time.Time, err error) {
	// Subscribe first: what happens between is in the list, or makes an event.
	o.events.renew(ctx, o.runtime)
	at = time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	response, err := o.runtime.client.ListPodSandbox(ctx, &pb.ListPodSandboxRequest{})
	if err != nil {
		return nil, at, o.runtime.explain("list the pod sandboxes", err)
	}
	return response.GetItems(), at, nil
}

// giveUp closes a connection that broke. gRPC would go on dialling by itself for
// as long as the runtime is away, and log each failure.
func (o *observer) giveUp() {
	o.runtime.close()
	o.dials = o.runtime.dials.Load()
	o.runtime = nil
}
