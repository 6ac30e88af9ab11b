// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime is a fake of a container runtime's CRI service: it serves what the
// test sets, over a real gRPC server on a real socket. It has no containers and
// no networks; TestLive runs against a real runtime.
type fakeRuntime struct {
	pb.UnimplementedRuntimeServiceServer
	t    *testing.T
	path string

	// queue holds events that nobody has read: a send to a subscriber takes one
	// out when the stream has accepted it. It is nil for a runtime without events.
	queue chan *pb.ContainerEventResponse

	mu        sync.Mutex
	server    *grpc.Server
	sandboxes map[string]*pb.PodSandboxStatus
	netns     map[string]string
	statuses  map[string]int           // status calls by sandbox
	verbose   map[string]int           // verbose ones
	broken    map[string]error         // what a status call answers
	hold      map[string]chan struct{} // a status call waits for it
	stuck     map[string]bool          // a verbose status call waits for ever
	shimless  map[string]bool          // a verbose status call fails
	lists     int
	streams   []context.Context
}

func newFakeRuntime(t *testing.T) *fakeRuntime {
	f := &fakeRuntime{
		t: t, path: filepath.Join(t.TempDir(), "cri.sock"),
		sandboxes: map[string]*pb.PodSandboxStatus{}, netns: map[string]string{},
		statuses: map[string]int{}, verbose: map[string]int{}, broken: map[string]error{}, hold: map[string]chan struct{}{}, stuck: map[string]bool{},
		shimless: map[string]bool{},
	}
	f.start()
	t.Cleanup(f.kill)
	return f
}

func (f *fakeRuntime) endpoint() string { return "unix://" + f.path }

func (f *fakeRuntime) start() {
	_ = os.Remove(f.path)
	listener, err := net.Listen("unix", f.path)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server = grpc.NewServer()
	pb.RegisterRuntimeServiceServer(f.server, f)
	go func(server *grpc.Server) { _ = server.Serve(listener) }(f.server)
}

// kill cuts every connection.
func (f *fakeRuntime) kill() {
	f.mu.Lock()
	server := f.server
	f.mu.Unlock()
	server.Stop()
}

// run makes a READY sandbox, or changes it.
func (f *fakeRuntime) run(id string, change func(*pb.PodSandboxStatus)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &pb.PodSandboxStatus{
		Id:        id,
		Metadata:  &pb.PodSandboxMetadata{Name: "pod-" + id, Namespace: "demo", Uid: "uid-" + id},
		State:     pb.PodSandboxState_SANDBOX_READY,
		CreatedAt: 1_700_000_000_000_000_000,
		Network:   &pb.PodSandboxNetworkStatus{},
	}
	if change != nil {
		change(s)
	}
	f.sandboxes[id] = s
}

func withIP(ips ...string) func(*pb.PodSandboxStatus) {
	return func(s *pb.PodSandboxStatus) {
		s.Network.Ip = ips[0]
		for _, ip := range ips[1:] {
			s.Network.AdditionalIps = append(s.Network.AdditionalIps, &pb.PodIP{Ip: ip})
		}
	}
}

func (f *fakeRuntime) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, id)
}

func (f *fakeRuntime) calls(id string) (statuses, verbose int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.statuses[id], f.verbose[id]
}

// release lets the status calls for a sandbox through.
func (f *fakeRuntime) release(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hold, held := f.hold[id]; held {
		close(hold)
		delete(f.hold, id)
	}
	delete(f.stuck, id)
	delete(f.shimless, id)
}

func (f *fakeRuntime) opened() []context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.streams)
}

func (f *fakeRuntime) ListPodSandbox(context.Context, *pb.ListPodSandboxRequest) (*pb.ListPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	r := &pb.ListPodSandboxResponse{}
	for _, s := range f.sandboxes {
		r.Items = append(r.Items, &pb.PodSandbox{Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels})
	}
	return r, nil
}

func (f *fakeRuntime) PodSandboxStatus(ctx context.Context, q *pb.PodSandboxStatusRequest) (*pb.PodSandboxStatusResponse, error) {
	f.mu.Lock()
	hold := f.hold[q.PodSandboxId]
	if q.Verbose && f.stuck[q.PodSandboxId] { // as containerd with a shim that hangs
		hold = make(chan struct{})
	}
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses[q.PodSandboxId]++
	if err := f.broken[q.PodSandboxId]; err != nil {
		return nil, err
	}
	s, ok := f.sandboxes[q.PodSandboxId]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such sandbox")
	}
	r := &pb.PodSandboxStatusResponse{Status: s}
	if q.Verbose && f.shimless[s.Id] { // as containerd with a shim that ended
		return nil, status.Error(codes.Unknown, "failed to get verbose sandbox container info: ttrpc: closed")
	}
	if q.Verbose {
		f.verbose[q.PodSandboxId]++
		// As containerd does, with an address that must not be taken from here.
		r.Info = map[string]string{"info": fmt.Sprintf(
			`{"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"},{"type":"network","path":%q}]}},"cniResult":{"Interfaces":{"eth0":{"IPConfigs":[{"IP":"10.99.99.99"}]}}}}`,
			f.netns[s.Id])}
	}
	return r, nil
}

func (f *fakeRuntime) GetContainerEvents(_ *pb.GetEventsRequest, stream pb.RuntimeService_GetContainerEventsServer) error {
	f.mu.Lock()
	f.streams = append(f.streams, stream.Context())
	queue := f.queue
	f.mu.Unlock()
	if queue == nil {
		return status.Error(codes.Unimplemented, "no events")
	}
	for {
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case event := <-queue:
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

// event queues an event of a realistic size.
func (f *fakeRuntime) event(id string) {
	f.queue <- &pb.ContainerEventResponse{
		ContainerId:        id,
		ContainerEventType: pb.ContainerEventType_CONTAINER_STARTED_EVENT,
		PodSandboxStatus: &pb.PodSandboxStatus{
			Id: id, Metadata: &pb.PodSandboxMetadata{Name: "pod-" + id},
			Annotations: map[string]string{"padding": string(make([]byte, 1000))},
		},
	}
}
