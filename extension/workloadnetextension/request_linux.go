// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
)

const (
	defaultIfName = "eth0"
	// maxName bounds names, UIDs and label keys: Kubernetes's own are at most 253,
	// with a label key's prefix 317.
	maxName = 512
	// maxEntries bounds every list of a request.
	maxEntries = 1024
)

// workloadIDs fit into a link's alias and a file's name.
var workloadIDs = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// parseAttach returns the attachment that a request asks for, without what only
// the attaching itself can know. The error is a gRPC status that names the field.
func parseAttach(req *pb.AttachRequest) (*journal.Attachment, error) {
	a := &journal.Attachment{
		WorkloadID: req.GetWorkloadId(), NetNSPath: req.GetNetns().GetNetnsPath(), IfName: req.GetNetns().GetIfName(),
		Workload: &journal.Workload{
			Name: req.GetWorkload().GetName(), Namespace: req.GetWorkload().GetNamespace(), UID: req.GetWorkload().GetUid(),
			Labels: req.GetWorkload().GetLabels(), Annotations: req.GetWorkload().GetAnnotations(),
		},
	}
	if dns := req.GetDns(); dns != nil {
		a.DNS = &journal.DNS{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
	}
	if a.IfName == "" {
		a.IfName = defaultIfName
	}
	for _, check := range []func() error{
		func() error { return checkWorkloadID(a.WorkloadID) },
		func() error { return checkNetNS(a) },
		func() error { return checkWorkload(a.Workload) },
		func() error { return checkDNS(a.DNS) },
		func() error { return checkUnimplemented(req) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func invalid(field, format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "%s: %s", field, fmt.Sprintf(format, args...))
}

func checkWorkloadID(id string) error {
	if !workloadIDs.MatchString(id) {
		return invalid("workload_id", "%.140q: must be 1 to 128 letters, digits, '.', '_', '-' and ':'", id)
	}
	return nil
}

func checkNetNS(a *journal.Attachment) error {
	switch {
	case !filepath.IsAbs(a.NetNSPath) || len(a.NetNSPath) > 4096 || strings.ContainsRune(a.NetNSPath, 0):
		return invalid("netns.netns_path", "%.140q: must be the absolute path of a network namespace", a.NetNSPath)
	case !validIfName(a.IfName):
		return invalid("netns.if_name", "%.140q: must be 1 to 15 bytes without space, '/' and ':', and not \"lo\"", a.IfName)
	}
	return nil
}

// validIfName is the kernel's dev_valid_name, without lo, and without what isn't
// printable.
func validIfName(name string) bool {
	return name != "" && len(name) <= 15 && name != "." && name != ".." && name != "lo" &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == ':' || r == '%' })
}

func checkWorkload(w *journal.Workload) error {
	if w.Name == "" {
		return invalid("workload.name", "must be set: it is the name that telemetry will carry")
	}
	for _, f := range []struct{ field, value string }{
		{"workload.name", w.Name}, {"workload.namespace", w.Namespace}, {"workload.uid", w.UID},
	} {
		if len(f.value) > maxName {
			return invalid(f.field, "%.140q: must be at most %d bytes", f.value, maxName)
		}
	}
	for _, f := range []struct {
		field string
		value map[string]string
	}{{"workload.labels", w.Labels}, {"workload.annotations", w.Annotations}} {
		if len(f.value) > maxEntries {
			return invalid(f.field, "has %d entries: must have at most %d", len(f.value), maxEntries)
		}
		for k := range f.value {
			if k == "" || len(k) > maxName {
				return invalid(f.field, "key %.140q: must be 1 to %d bytes", k, maxName)
			}
		}
	}
	return nil
}

func checkDNS(dns *journal.DNS) error {
	if dns == nil {
		return nil
	}
	for _, f := range []struct {
		field string
		value []string
	}{{"dns.servers", dns.Servers}, {"dns.searches", dns.Searches}, {"dns.options", dns.Options}} {
		if len(f.value) > maxEntries {
			return invalid(f.field, "has %d entries: must have at most %d", len(f.value), maxEntries)
		}
	}
	return nil
}

func checkUnimplemented(req *pb.AttachRequest) error {
	if len(req.GetPortMappings()) > 0 {
		return status.Error(codes.Unimplemented, "port_mappings: workloadnet maps no ports of the node: "+
			"reach the workload at its own address, or run it in the node's network")
	}
	if req.GetBandwidth() != nil {
		return status.Error(codes.Unimplemented, "bandwidth: workloadnet shapes no traffic: "+
			"remove the limit (with Kubernetes, the annotations kubernetes.io/ingress-bandwidth and egress-bandwidth)")
	}
	return nil
}

// sameRequest says whether a and b were asked for by the same request.
func sameRequest(a, b *journal.Attachment) bool {
	return a.WorkloadID == b.WorkloadID && a.NetNSPath == b.NetNSPath && a.NetNS == b.NetNS && a.IfName == b.IfName &&
		sameWorkload(a.Workload, b.Workload) && sameDNS(a.DNS, b.DNS)
}

func sameWorkload(a, b *journal.Workload) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Namespace == b.Namespace && a.UID == b.UID &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

func sameDNS(a, b *journal.DNS) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Servers, b.Servers) && slices.Equal(a.Searches, b.Searches) && slices.Equal(a.Options, b.Options)
}

// toProto returns a as the service shows it.
func toProto(a *journal.Attachment) *pb.Attachment {
	p := &pb.Attachment{
		WorkloadId: a.WorkloadID, NetnsInode: a.NetNS, Mac: a.MAC, HostInterface: a.HostInterface,
		AttachedAt: timestamppb.New(a.At),
	}
	if a.NetNSPath != "" {
		p.Netns = &pb.NetNS{NetnsPath: a.NetNSPath, IfName: a.IfName}
	}
	if w := a.Workload; w != nil {
		p.Workload = &pb.Workload{Name: w.Name, Namespace: w.Namespace, Uid: w.UID, Labels: w.Labels, Annotations: w.Annotations}
	}
	if d := a.DNS; d != nil {
		p.Dns = &pb.DNS{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
	}
	for _, addr := range a.Addresses {
		p.Addresses = append(p.Addresses, &pb.Address{Ip: addr.String(), Gateway: gateway(addr)})
	}
	return p
}
