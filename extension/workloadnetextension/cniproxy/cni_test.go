// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/containerd/go-cni/internal/workloadnetpb"
)

// fakeService answers in the service's place: the real one is in another module,
// which may not be part of this one; test/attach runs the two together.
type fakeService struct {
	mu       sync.Mutex
	requests []proto.Message
	answer   func(method string) (proto.Message, error)
}

// serve has the service listen at socket until stop.
func (f *fakeService) serve(t *testing.T, socket string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(f.handle))
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	return func() { server.Stop(); <-done }
}

func (f *fakeService) handle(_ interface{}, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	req, ok := map[string]proto.Message{
		methodAttach: &pb.AttachRequest{}, methodDetach: &pb.DetachRequest{},
		methodStatus: &pb.StatusRequest{}, methodList: &pb.ListRequest{},
	}[method]
	if !ok {
		return status.Error(codes.Unimplemented, method)
	}
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	f.mu.Lock()
	f.requests = append(f.requests, req)
	f.mu.Unlock()
	answer, err := f.answer(method)
	if err != nil {
		return err
	}
	return stream.SendMsg(answer)
}

func attachment() *pb.Attachment {
	return &pb.Attachment{
		WorkloadId: "sandbox-1", Netns: &pb.NetNS{NetnsPath: "/run/netns/x", IfName: "eth0"}, Mac: "0a:00:00:00:00:01", HostInterface: "wn0123456789ab",
		Addresses: []*pb.Address{{Ip: "10.88.0.2", Gateway: "169.254.77.1"}, {Ip: "fd00:88::2", Gateway: "fe80::1"}},
		Dns:       &pb.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"local"}, Options: []string{"ndots:5"}},
	}
}

func ok(method string) (proto.Message, error) {
	return map[string]proto.Message{
		methodAttach: &pb.AttachResponse{Attachment: attachment()}, methodDetach: &pb.DetachResponse{},
		methodStatus: &pb.StatusResponse{}, methodList: &pb.ListResponse{Attachments: []*pb.Attachment{attachment()}},
	}[method], nil
}

func socketPath(t *testing.T) string {
	dir, err := os.MkdirTemp("", "wn") // t.TempDir may be longer than a socket's path can be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func newCNI(t *testing.T, opts ...Opt) CNI {
	t.Helper()
	c, err := New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// containerdOpts are what containerd's CRI passes to Setup and Remove.
func containerdOpts() []NamespaceOpts {
	return []NamespaceOpts{
		WithLabels(map[string]string{
			"K8S_POD_NAMESPACE": "shop", "K8S_POD_NAME": "web-0", "K8S_POD_INFRA_CONTAINER_ID": "sandbox-1", "K8S_POD_UID": "7c0f", "IgnoreUnknown": "1",
		}),
		WithCapability("io.kubernetes.cri.pod-annotations", map[string]string{"a": "b"}),
		WithCapabilityDNS(DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"local"}, Options: []string{"ndots:5"}}),
		WithCapabilityCgroupPath("/pod1"),
	}
}

func TestSetup(t *testing.T) {
	f := &fakeService{answer: ok}
	socket := socketPath(t)
	defer f.serve(t, socket)()
	c := newCNI(t, WithMinNetworkCount(2), WithPluginConfDir("/etc/cni/net.d"), WithPluginMaxConfNum(1), WithPluginDir([]string{"/opt/cni/bin"}), WithSocket(socket))
	for name, setup := range map[string]func(context.Context, string, string, ...NamespaceOpts) (*Result, error){"Setup": c.Setup, "SetupSerially": c.SetupSerially} {
		t.Run(name, func(t *testing.T) {
			f.requests = nil
			result, err := setup(context.Background(), "sandbox-1", "/run/netns/x", containerdOpts()...)
			if err != nil {
				t.Fatal(err)
			}
			want := &pb.AttachRequest{
				WorkloadId: "sandbox-1", Netns: &pb.NetNS{NetnsPath: "/run/netns/x", IfName: "eth0"},
				Workload: &pb.Workload{Name: "web-0", Namespace: "shop", Uid: "7c0f", Annotations: map[string]string{"a": "b"}},
				Dns:      &pb.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"local"}, Options: []string{"ndots:5"}},
			}
			if len(f.requests) != 1 || !proto.Equal(f.requests[0], want) {
				t.Errorf("asked for %v, want %v", f.requests, want)
			}
			checkResult(t, result)
		})
	}
}

func checkResult(t *testing.T, result *Result) {
	t.Helper()
	eth0 := result.Interfaces["eth0"]
	if eth0 == nil || eth0.Mac != "0a:00:00:00:00:01" || eth0.Sandbox != "/run/netns/x" || len(eth0.IPConfigs) != 2 {
		t.Fatalf("eth0: %+v", eth0)
	}
	for i, want := range []IPConfig{
		{net.IP{10, 88, 0, 2}, net.IP{169, 254, 77, 1}}, {net.ParseIP("fd00:88::2"), net.ParseIP("fe80::1")},
	} {
		if !reflect.DeepEqual(*eth0.IPConfigs[i], want) {
			t.Errorf("address %d: %+v, want %+v", i, *eth0.IPConfigs[i], want)
		}
	}
	if host := result.Interfaces["wn0123456789ab"]; host == nil || len(host.IPConfigs) != 0 {
		t.Errorf("the node's end: %+v", host)
	}
	if want := []types.DNS{{Nameservers: []string{"192.0.2.53"}, Search: []string{"local"}, Options: []string{"ndots:5"}}}; !reflect.DeepEqual(result.DNS, want) {
		t.Errorf("DNS: %+v", result.DNS)
	}
	if len(result.Routes) != 2 || result.Routes[0].Dst.String() != "0.0.0.0/0" || result.Routes[1].Dst.String() != "::/0" {
		t.Errorf("routes: %+v", result.Routes)
	}
	raw := result.Raw()
	if len(raw) != 1 || len(raw[0].IPs) != 2 || raw[0].IPs[0].Address.String() != "10.88.0.2/32" || raw[0].IPs[1].Address.String() != "fd00:88::2/128" {
		t.Errorf("raw: %+v", raw)
	}
	// Containerd keeps the result as JSON.
	b, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Interfaces["eth0"].IPConfigs[0].IP.Equal(net.IP{10, 88, 0, 2}) {
		t.Errorf("after JSON: %s", b)
	}
}

func TestSetupPassesOnWhatTheServiceRefuses(t *testing.T) {
	f := &fakeService{answer: ok}
	socket := socketPath(t)
	defer f.serve(t, socket)()
	_, err := newCNI(t, WithSocket(socket), WithInterfacePrefix("net")).Setup(context.Background(), "default-box", "/run/netns/x",
		WithCapabilityPortMap([]PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: "192.0.2.1"}}),
		WithCapabilityBandWidth(BandWidth{IngressRate: 1, IngressBurst: 2, EgressRate: 3, EgressBurst: 4}))
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.AttachRequest{
		WorkloadId: "default-box", Netns: &pb.NetNS{NetnsPath: "/run/netns/x", IfName: "net0"},
		Workload:     &pb.Workload{Name: "default-box"}, // as ctr run --cni has no other
		PortMappings: []*pb.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIp: "192.0.2.1"}},
		Bandwidth:    &pb.Bandwidth{IngressRate: 1, IngressBurst: 2, EgressRate: 3, EgressBurst: 4},
	}
	if !proto.Equal(f.requests[0], want) {
		t.Errorf("asked for %v, want %v", f.requests[0], want)
	}
}

func TestSetupRefuses(t *testing.T) {
	failing := errors.New("failing")
	for _, tt := range []struct {
		name string
		opt  NamespaceOpts
		want error
	}{
		{"IP ranges", WithCapabilityIPRanges([]IPRanges{{Subnet: "10.0.0.0/8"}}), ErrInvalidConfig},
		{"a MAC address", WithCapability("mac", "0a:00:00:00:00:01"), ErrInvalidConfig},
		{"an address by argument", WithArgs("IP", "10.88.0.9"), ErrInvalidConfig},
		{"port mappings of another type", WithCapability("portMappings", "80"), ErrInvalidConfig},
		{"annotations of another type", WithCapability("io.kubernetes.cri.pod-annotations", 1), ErrInvalidConfig},
		{"an option that fails", func(*Namespace) error { return failing }, failing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newCNI(t, WithSocket("/nonexistent")).Setup(context.Background(), "sandbox-1", "/run/netns/x", tt.opt)
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

func TestRemoveAndCheck(t *testing.T) {
	f := &fakeService{answer: ok}
	socket := socketPath(t)
	defer f.serve(t, socket)()
	c := newCNI(t, WithSocket(socket))
	if err := c.Remove(context.Background(), "sandbox-1", "", containerdOpts()...); err != nil {
		t.Error(err)
	}
	if err := c.Check(context.Background(), "sandbox-1", "/run/netns/x"); err != nil {
		t.Error(err)
	}
	for i, want := range []proto.Message{&pb.DetachRequest{WorkloadId: "sandbox-1"}, &pb.ListRequest{WorkloadId: "sandbox-1"}} {
		if !proto.Equal(f.requests[i], want) {
			t.Errorf("asked for %v, want %v", f.requests[i], want)
		}
	}
	f.answer = func(string) (proto.Message, error) { return &pb.ListResponse{}, nil }
	if err := c.Check(context.Background(), "sandbox-1", "/run/netns/x"); !IsNotFound(err) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

// The service's codes become go-cni's errors, and never a gRPC status: containerd
// would hand its code on as its own.
func TestErrors(t *testing.T) {
	f := &fakeService{}
	socket := socketPath(t)
	defer f.serve(t, socket)()
	c := newCNI(t, WithSocket(socket))
	for code, want := range map[codes.Code]error{
		codes.Unavailable: ErrCNINotInitialized, codes.DeadlineExceeded: ErrCNINotInitialized, codes.NotFound: ErrNotFound,
		codes.InvalidArgument: ErrInvalidConfig, codes.Unimplemented: ErrInvalidConfig,
		codes.ResourceExhausted: nil, codes.AlreadyExists: nil, codes.PermissionDenied: nil, codes.Internal: nil, codes.FailedPrecondition: nil,
	} {
		t.Run(code.String(), func(t *testing.T) {
			f.answer = func(string) (proto.Message, error) { return nil, status.Error(code, "what the service says") }
			_, setup := c.Setup(context.Background(), "sandbox-1", "/run/netns/x")
			for call, err := range map[string]error{
				"Setup": setup, "Remove": c.Remove(context.Background(), "sandbox-1", ""),
				"Check": c.Check(context.Background(), "sandbox-1", ""), "Status": c.Status(),
			} {
				if err == nil || !strings.Contains(err.Error(), "what the service says") {
					t.Errorf("%s: %v does not say what the service says", call, err)
				}
				for _, known := range []error{ErrCNINotInitialized, ErrNotFound, ErrInvalidConfig} {
					if errors.Is(err, known) != (known == want) {
						t.Errorf("%s: %v: is %v: %t", call, err, known, !errors.Is(err, known))
					}
				}
				var isStatus interface{ GRPCStatus() *status.Status }
				if errors.As(err, &isStatus) {
					t.Errorf("%s: %v wraps a gRPC status", call, err)
				}
			}
		})
	}
}

func TestBadAnswers(t *testing.T) {
	f := &fakeService{}
	socket := socketPath(t)
	defer f.serve(t, socket)()
	c := newCNI(t, WithSocket(socket))
	for name, change := range map[string]func(*pb.Attachment){
		"no address":    func(a *pb.Attachment) { a.Addresses = nil },
		"no interface":  func(a *pb.Attachment) { a.Netns = nil },
		"a bad address": func(a *pb.Attachment) { a.Addresses[0].Ip = "10.88.0" },
		"a bad gateway": func(a *pb.Attachment) { a.Addresses[1].Gateway = "" },
	} {
		t.Run(name, func(t *testing.T) {
			a := attachment()
			change(a)
			f.answer = func(string) (proto.Message, error) { return &pb.AttachResponse{Attachment: a}, nil }
			if _, err := c.Setup(context.Background(), "sandbox-1", "/run/netns/x"); !IsInvalidResult(err) {
				t.Errorf("%v, want ErrInvalidResult", err)
			}
		})
	}
}

// While the service is down every call fails at once and says so, and when it is
// back the next call works: nothing waits, nothing backs off.
func TestServiceDown(t *testing.T) {
	f := &fakeService{answer: ok}
	socket := socketPath(t)
	c := newCNI(t, WithSocket(socket))
	down := func() {
		t.Helper()
		for i := 0; i < 5; i++ {
			begin := time.Now()
			_, setup := c.Setup(context.Background(), "sandbox-1", "/run/netns/x", containerdOpts()...)
			for call, err := range map[string]error{"Setup": setup, "Remove": c.Remove(context.Background(), "sandbox-1", ""), "Status": c.Status()} {
				if !IsCNINotInitialized(err) || !strings.Contains(err.Error(), socket) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if took := time.Since(begin); took > callTimeout/2 {
				t.Errorf("three calls took %s", took)
			}
		}
	}
	up := func() {
		t.Helper()
		if err := c.Status(); err != nil {
			t.Error(err)
		}
		if _, err := c.Setup(context.Background(), "sandbox-1", "/run/netns/x", containerdOpts()...); err != nil {
			t.Error(err)
		}
	}
	down()
	stop := f.serve(t, socket)
	up()
	stop()
	down()
	stop = f.serve(t, socket)
	up()
	stop()
}

func TestCallersContext(t *testing.T) {
	f := &fakeService{}
	socket := socketPath(t)
	hang := make(chan struct{})
	defer f.serve(t, socket)()
	defer close(hang)
	f.answer = func(string) (proto.Message, error) { <-hang; return nil, nil }
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := newCNI(t, WithSocket(socket)).Setup(ctx, "sandbox-1", "/run/netns/x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the caller's deadline", err)
	}
}

func TestSocket(t *testing.T) {
	for _, tt := range []struct {
		name, env string
		opts      []Opt
		want      string
	}{
		{"default", "", nil, DefaultSocket},
		{"environment", "/run/other.sock", nil, "/run/other.sock"},
		{"environment, with a scheme", "unix:///run/other.sock", nil, "/run/other.sock"},
		{"option before environment", "/run/other.sock", []Opt{WithSocket("unix:///run/mine.sock")}, "/run/mine.sock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(SocketEnv, tt.env)
			if got := newCNI(t, tt.opts...).(*proxy).socket; got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	c := newCNI(t, WithSocket("/nonexistent"))
	if err := c.Load(WithLoNetwork, WithDefaultConf, nil); err != nil {
		t.Errorf("containerd loads before the service is there: %v", err)
	}
	if err := c.Load(WithAllConf); err != nil {
		t.Error(err)
	}
	for _, o := range []Opt{WithConf(nil), WithConfIndex(nil, 1), WithConfFile("/x.conf"), WithConfListBytes(nil), WithConfListFile("/x.conflist")} {
		err := c.Load(o)
		if !errors.Is(err, ErrLoad) || !IsInvalidConfig(err) {
			t.Errorf("%v, want ErrLoad and ErrInvalidConfig", err)
		}
		if _, err := New(o); !IsInvalidConfig(err) {
			t.Errorf("%v, want ErrInvalidConfig", err)
		}
	}
}

func TestNewDoesNotPanic(t *testing.T) {
	for i, opts := range [][]Opt{nil, {nil}, {WithPluginDir(nil), WithPluginConfDir(""), WithMinNetworkCount(-1), WithSocket("")}} {
		c := newCNI(t, opts...)
		_ = c.Status()
		if c.GetConfig() == nil {
			t.Errorf("%d: no configuration", i)
		}
		if _, err := c.Setup(context.Background(), "", "", nil); err == nil {
			t.Errorf("%d: it was set up", i)
		}
	}
}

func TestGetConfig(t *testing.T) {
	c := newCNI(t, WithPluginDir([]string{"/opt/bin"}), WithPluginConfDir("/etc/net.d"), WithPluginMaxConfNum(3), WithInterfacePrefix("net"))
	config := c.GetConfig()
	if fmt.Sprint(config.PluginDirs) != "[/opt/bin]" || config.PluginConfDir != "/etc/net.d" || config.PluginMaxConfNum != 3 || config.Prefix != "net" {
		t.Errorf("%+v", config)
	}
	if len(config.Networks) != 1 || config.Networks[0].IFName != "net0" || config.Networks[0].Config.Name != "workloadnet" {
		t.Errorf("%+v", config.Networks)
	}
	if _, err := json.Marshal(config); err != nil { // as crictl info shows it
		t.Error(err)
	}
}

// The methods are called by name: the names must be the interface's.
func TestMethods(t *testing.T) {
	service := pb.File_workloadnet_proto.Services().ByName("WorkloadNetworking")
	for _, method := range []string{methodAttach, methodDetach, methodStatus, methodList} {
		i := strings.LastIndex(method, "/")
		found := false
		for m := 0; m < service.Methods().Len(); m++ {
			found = found || "/"+string(service.FullName()) == method[:i] && string(service.Methods().Get(m).Name()) == method[i+1:]
		}
		if !found {
			t.Errorf("%s is not a method of the service", method)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	f := &fakeService{answer: ok}
	socket := socketPath(t)
	defer f.serve(t, socket)()
	c := newCNI(t, WithSocket(socket))
	var wg sync.WaitGroup
	for i := 0; i < 50; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := c.Setup(context.Background(), "sandbox-1", "/run/netns/x", containerdOpts()...); err != nil {
				t.Error(err)
			}
			_, _ = c.Status(), c.GetConfig()
			if err := c.Load(WithLoNetwork, WithDefaultConf); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
}
