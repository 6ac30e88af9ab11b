// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/ipam"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func gateway(addr netip.Addr) string { return veth.Gateway(addr).String() }

// Attach implements the service.
func (s *service) Attach(ctx context.Context, req *pb.AttachRequest) (*pb.AttachResponse, error) {
	a, err := parseAttach(req)
	if err != nil {
		return nil, err
	}
	release, err := s.table.acquire(ctx, a.WorkloadID)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	ns, err := veth.OpenNetNS(a.NetNSPath)
	if err != nil {
		return nil, toStatus(namespaceError(a.NetNSPath, err))
	}
	defer ns.Close()
	a.NetNS = ns.Inode
	if existing := s.table.get(a.WorkloadID); existing != nil {
		if s.table.isDetaching(a.WorkloadID) {
			return nil, status.Errorf(codes.Unavailable, "workload_id: %q is being detached, and its Detach has not finished: detach it again first", a.WorkloadID)
		}
		if !sameRequest(existing, a) {
			return nil, status.Errorf(codes.AlreadyExists, "workload_id: %q is attached with another request, to %s: detach it first",
				a.WorkloadID, existing.NetNSPath)
		}
		return &pb.AttachResponse{Attachment: toProto(existing)}, nil
	}
	if err := s.attach(ctx, ns, a); err != nil {
		return nil, toStatus(err)
	}
	return &pb.AttachResponse{Attachment: toProto(a)}, nil
}

// namespaceError says which field is wrong, or what the collector lacks.
func namespaceError(path string, err error) error {
	err = fmt.Errorf("netns.netns_path: %w", err)
	switch {
	case !errors.Is(err, fs.ErrPermission):
		return err
	case strings.HasPrefix(path, "/proc/"): // proc(5): it is a question of ptrace
		return fmt.Errorf("%w: the collector needs CAP_SYS_PTRACE", err)
	default:
		return fmt.Errorf("%w: the collector needs CAP_DAC_READ_SEARCH", err)
	}
}

// attach gives a its network and fills in the rest of it. After an error nothing
// is left of the attempt. The order is such that it may be cut short anywhere:
// a link counts only once it is marked, and it is marked only once it is recorded.
func (s *service) attach(ctx context.Context, ns *veth.NetNS, a *journal.Attachment) error {
	var undo []func()
	var link *veth.Creation
	done := false // not err: a panic is undone as well
	defer func() {
		for i := len(undo) - 1; !done && i >= 0; i-- {
			undo[i]()
		}
		if link != nil {
			link.Close()
		}
	}()
	a.At = time.Now().UTC()
	var err error
	if a.Addresses, err = s.addresses.Allocate(a.At); err != nil {
		return err
	}
	stuck := false // the link could not be deleted, and has the addresses
	undo = append(undo, func() {
		if stuck {
			s.addresses.Release(a.Addresses, time.Now())
		} else {
			s.addresses.Return(a.Addresses)
		}
	})

	// Before the link, so that whoever sees it knows whose it is. Without the
	// sandbox: to end that would be to say that it is dead, which the failure of an
	// Attach is no sign of.
	unfinished := record(a)
	unfinished.Sandbox = ""
	if err := s.publisher.Publish(unfinished); err != nil {
		return err
	}
	undo = append(undo, func() { s.publisher.End(a.WorkloadID, time.Now()) })
	if link, err = s.connect(ctx, ns, a); err != nil {
		return err
	}
	undo = append(undo, func() { stuck = !s.disconnect(link, a) })
	made := link.Link()
	a.MAC, a.HostInterface, a.HostIndex = made.MAC.String(), made.HostName, made.HostIndex

	if err := s.stored(s.journal.Put(a)); err != nil {
		return err
	}
	undo = append(undo, func() { _ = s.stored(s.journal.Delete(a.WorkloadID)) })
	if err := s.network.Mark(a.HostIndex, a.WorkloadID); err != nil {
		return err
	}
	// The last chance for a caller that has hung up: it won't detach.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.publisher.Publish(record(a)); err != nil {
		return err
	}
	s.table.put(a)
	done = true
	return nil
}

func (s *service) connect(ctx context.Context, ns *veth.NetNS, a *journal.Attachment) (*veth.Creation, error) {
	spec := veth.Spec{WorkloadID: a.WorkloadID, IfName: a.IfName, Addresses: a.Addresses}
	link, err := s.network.Create(ctx, ns, spec)
	taken := errors.Is(err, veth.ErrIfNameTaken) || errors.Is(err, veth.ErrHostNameTaken)
	if taken && s.reaper.flush(ctx) {
		// The name may have been that of a link about to be deleted.
		link, err = s.network.Create(ctx, ns, spec)
	}
	return link, err
}

// disconnect takes a link back. If that fails, the reaper keeps trying.
func (s *service) disconnect(link *veth.Creation, a *journal.Attachment) bool {
	err := link.Undo()
	if err != nil {
		s.logger.Error("Cannot delete the link of a failed attachment; it will be tried again",
			zap.String("workload_id", a.WorkloadID), zap.String("interface", a.HostInterface), zap.Error(err))
		s.reaper.add(link.Link().HostIndex)
	}
	return err == nil
}

// record is a's identity, as podidentity takes it.
func record(a *journal.Attachment) podidentity.Record {
	return podidentity.Record{
		Owner: a.WorkloadID, Sandbox: a.WorkloadID, NetNS: a.NetNS, Addresses: a.Addresses, Begin: a.At,
		Identity: podidentity.Identity{
			Name: a.Workload.Name, Namespace: a.Workload.Namespace, UID: a.Workload.UID,
			Labels: a.Workload.Labels, Annotations: a.Workload.Annotations,
		},
	}
}

// Detach implements the service.
func (s *service) Detach(ctx context.Context, req *pb.DetachRequest) (*pb.DetachResponse, error) {
	id := req.GetWorkloadId()
	if err := checkWorkloadID(id); err != nil {
		return nil, err
	}
	release, err := s.table.acquire(ctx, id)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	a := s.table.get(id)
	if a == nil {
		return &pb.DetachResponse{}, nil
	}
	err = s.network.Doom(a.HostIndex, id)
	if !errors.Is(err, veth.ErrNotOurs) { // else nothing was done
		s.table.detach(id)
	}
	if err != nil {
		return nil, toStatus(err)
	}
	if err := s.forget(a); err != nil {
		return nil, toStatus(err)
	}
	s.reaper.add(a.HostIndex)
	return &pb.DetachResponse{}, nil
}

// forget ends an attachment whose link carries nothing any more. The caller has
// acquired it.
func (s *service) forget(a *journal.Attachment) error {
	now := time.Now()
	if err := s.stored(s.journal.Release(a, now)); err != nil {
		return err
	}
	s.drop(a, now)
	return nil
}

// drop ends an attachment in memory.
func (s *service) drop(a *journal.Attachment, at time.Time) {
	s.publisher.End(a.WorkloadID, at)
	s.table.remove(a)
	s.addresses.Release(a.Addresses, at)
}

// statusCodes are the codes of the errors that callers can tell apart.
var statusCodes = []struct {
	err  error
	code codes.Code
}{
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
	{ipam.ErrFull, codes.ResourceExhausted},
	{errNoPrefix, codes.Unavailable},
	{journal.ErrStorage, codes.Unavailable},
	{veth.ErrNotNetNS, codes.InvalidArgument},
	{veth.ErrOwnNetNS, codes.InvalidArgument},
	{veth.ErrIfNameTaken, codes.AlreadyExists},
	{veth.ErrHostNameTaken, codes.AlreadyExists},
	{veth.ErrOnNetwork, codes.AlreadyExists},
	{veth.ErrNotOurs, codes.FailedPrecondition},
	{veth.ErrNoIPv6, codes.FailedPrecondition},
}

// toStatus gives an error its gRPC code.
func toStatus(err error) error {
	for _, known := range statusCodes {
		if errors.Is(err, known.err) {
			return status.Error(known.code, err.Error())
		}
	}
	// The kernel's own error says the reason only if it is about opening a file:
	// netlink has the same numbers for other things.
	var step *veth.Error
	isStep := errors.As(err, &step)
	switch {
	case isStep && step.Capability != "", !isStep && errors.Is(err, fs.ErrPermission):
		return status.Error(codes.PermissionDenied, err.Error())
	case !isStep && errors.Is(err, fs.ErrNotExist):
		return status.Error(codes.NotFound, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}
