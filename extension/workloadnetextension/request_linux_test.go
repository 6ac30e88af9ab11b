// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
)

func goodRequest() *pb.AttachRequest {
	return &pb.AttachRequest{
		WorkloadId: "sandbox-1",
		Netns:      &pb.NetNS{NetnsPath: "/run/netns/x"},
		Workload: &pb.Workload{
			Name: "web-0", Namespace: "shop", Uid: "7c0f",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
		},
		Dns: &pb.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"shop.local"}, Options: []string{"ndots:5"}},
	}
}

func TestParseAttach(t *testing.T) {
	a, err := parseAttach(goodRequest())
	require.NoError(t, err)
	assert.Equal(t, &journal.Attachment{
		WorkloadID: "sandbox-1", NetNSPath: "/run/netns/x", IfName: "eth0",
		Workload: &journal.Workload{
			Name: "web-0", Namespace: "shop", UID: "7c0f",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
		},
		DNS: &journal.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"shop.local"}, Options: []string{"ndots:5"}},
	}, a)
}

func TestParseAttachRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*pb.AttachRequest)
		code   codes.Code
		field  string
	}{
		{"no workload id", func(r *pb.AttachRequest) { r.WorkloadId = "" }, codes.InvalidArgument, "workload_id"},
		{"a workload id that fits no alias", func(r *pb.AttachRequest) { r.WorkloadId = "a b" }, codes.InvalidArgument, "workload_id"},
		{"a workload id that is too long", func(r *pb.AttachRequest) { r.WorkloadId = strings.Repeat("a", 129) }, codes.InvalidArgument, "workload_id"},
		{"no namespace", func(r *pb.AttachRequest) { r.Netns = nil }, codes.InvalidArgument, "netns.netns_path"},
		{"a relative path", func(r *pb.AttachRequest) { r.Netns.NetnsPath = "run/netns/x" }, codes.InvalidArgument, "netns.netns_path"},
		{"a path with a zero byte", func(r *pb.AttachRequest) { r.Netns.NetnsPath = "/run/\x00" }, codes.InvalidArgument, "netns.netns_path"},
		{"lo as the interface", func(r *pb.AttachRequest) { r.Netns.IfName = "lo" }, codes.InvalidArgument, "netns.if_name"},
		{"an interface name that is too long", func(r *pb.AttachRequest) { r.Netns.IfName = strings.Repeat("a", 16) }, codes.InvalidArgument, "netns.if_name"},
		{"an interface name with a slash", func(r *pb.AttachRequest) { r.Netns.IfName = "a/b" }, codes.InvalidArgument, "netns.if_name"},
		{"an interface name that the kernel completes", func(r *pb.AttachRequest) { r.Netns.IfName = "eth%d" }, codes.InvalidArgument, "netns.if_name"},
		{"no name", func(r *pb.AttachRequest) { r.Workload = nil }, codes.InvalidArgument, "workload.name"},
		{"a name that is too long", func(r *pb.AttachRequest) { r.Workload.Name = strings.Repeat("a", 513) }, codes.InvalidArgument, "workload.name"},
		{"a namespace that is too long", func(r *pb.AttachRequest) { r.Workload.Namespace = strings.Repeat("a", 513) }, codes.InvalidArgument, "workload.namespace"},
		{"a uid that is too long", func(r *pb.AttachRequest) { r.Workload.Uid = strings.Repeat("a", 513) }, codes.InvalidArgument, "workload.uid"},
		{"an empty label key", func(r *pb.AttachRequest) { r.Workload.Labels[""] = "x" }, codes.InvalidArgument, "workload.labels"},
		{"too many annotations", func(r *pb.AttachRequest) {
			for i := range 1024 {
				r.Workload.Annotations[strings.Repeat("a", i+1)] = ""
			}
			delete(r.Workload.Annotations, strings.Repeat("a", 513))
			r.Workload.Annotations["b"] = ""
		}, codes.InvalidArgument, "workload.annotations"},
		{"too many DNS servers", func(r *pb.AttachRequest) { r.Dns.Servers = make([]string, 1025) }, codes.InvalidArgument, "dns.servers"},
		{"port mappings", func(r *pb.AttachRequest) { r.PortMappings = []*pb.PortMapping{{HostPort: 80}} }, codes.Unimplemented, "port_mappings"},
		{"bandwidth", func(r *pb.AttachRequest) { r.Bandwidth = &pb.Bandwidth{} }, codes.Unimplemented, "bandwidth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := goodRequest()
			tt.change(r)
			_, err := parseAttach(r)
			assert.Equal(t, tt.code, status.Code(err), "%v", err)
			assert.True(t, strings.HasPrefix(status.Convert(err).Message(), tt.field+": "), "%v", err)
		})
	}
}

func TestSameRequest(t *testing.T) {
	parse := func(change func(*pb.AttachRequest)) *journal.Attachment {
		r := goodRequest()
		change(r)
		a, err := parseAttach(r)
		require.NoError(t, err)
		return a
	}
	base := parse(func(*pb.AttachRequest) {})
	assert.True(t, sameRequest(base, parse(func(r *pb.AttachRequest) { r.Netns.IfName = "eth0" })), "eth0 is what none means")
	for name, change := range map[string]func(*pb.AttachRequest){
		"id":          func(r *pb.AttachRequest) { r.WorkloadId = "b" },
		"path":        func(r *pb.AttachRequest) { r.Netns.NetnsPath = "/b" },
		"interface":   func(r *pb.AttachRequest) { r.Netns.IfName = "b" },
		"name":        func(r *pb.AttachRequest) { r.Workload.Name = "b" },
		"namespace":   func(r *pb.AttachRequest) { r.Workload.Namespace = "b" },
		"uid":         func(r *pb.AttachRequest) { r.Workload.Uid = "b" },
		"labels":      func(r *pb.AttachRequest) { r.Workload.Labels["app"] = "b" },
		"annotations": func(r *pb.AttachRequest) { r.Workload.Annotations = nil },
		"servers":     func(r *pb.AttachRequest) { r.Dns.Servers = nil },
		"searches":    func(r *pb.AttachRequest) { r.Dns.Searches = []string{"b"} },
		"options":     func(r *pb.AttachRequest) { r.Dns.Options = append(r.Dns.Options, "b") },
		"no DNS":      func(r *pb.AttachRequest) { r.Dns = nil },
	} {
		assert.False(t, sameRequest(base, parse(change)), name)
	}
	again := *base
	again.NetNS = 1
	assert.False(t, sameRequest(base, &again), "another namespace under the same path")
	again = *base
	again.Workload = nil
	assert.False(t, sameRequest(base, &again), "an attachment whose record was lost")
}

func FuzzParseAttach(f *testing.F) {
	good, err := proto.Marshal(goodRequest())
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte{})
	for _, r := range []*pb.AttachRequest{
		{WorkloadId: "a", Netns: &pb.NetNS{NetnsPath: "/../..", IfName: "\x7f"}, Workload: &pb.Workload{Name: "n"}},
		{WorkloadId: strings.Repeat(":", 128), Netns: &pb.NetNS{NetnsPath: "/", IfName: "eth0"}, Workload: &pb.Workload{Name: "é"}, PortMappings: []*pb.PortMapping{nil}},
	} {
		b, err := proto.Marshal(r)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var req pb.AttachRequest
		if proto.Unmarshal(b, &req) != nil {
			return
		}
		a, err := parseAttach(&req)
		if err != nil {
			if c := status.Code(err); c != codes.InvalidArgument && c != codes.Unimplemented {
				t.Fatalf("code %s: %v", c, err)
			}
			if field, _, ok := strings.Cut(status.Convert(err).Message(), ": "); !ok || field == "" {
				t.Fatalf("the error names no field: %v", err)
			}
			return
		}
		// What goes on to the kernel and into a file must fit there.
		if len(a.WorkloadID) > 128 || len(a.IfName) > 15 || a.IfName == "" || !strings.HasPrefix(a.NetNSPath, "/") || a.Workload.Name == "" {
			t.Fatalf("accepted: %+v", a)
		}
		if !sameRequest(a, a) {
			t.Fatal("a request is not the same as itself")
		}
		if p := toProto(a); p.GetWorkload().GetName() != a.Workload.Name {
			t.Fatal("the answer has another name")
		}
	})
}
