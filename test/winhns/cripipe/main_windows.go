// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Command cripipe is a SIMULATED container runtime for Windows binaries under
// Wine: it answers the two calls by which CRI tells pods, on containerd's named
// pipe, from a JSON file that it reads at every call.
//
//	cripipe.exe sandboxes.json
//
// The file is a list of simhns.Sandbox.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/Microsoft/go-winio"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

const pipe = `\\.\pipe\containerd-containerd`

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cripipe:", err)
		os.Exit(1)
	}
}

func serve(path string) error {
	l, err := winio.ListenPipe(pipe, &winio.PipeConfig{})
	if err != nil {
		return err
	}
	// Wine 8 accepts the first connection of a pipe only when a second one comes:
	// the first is this one.
	prime, err := winio.DialPipe(pipe, nil)
	if err != nil {
		return err
	}
	defer prime.Close()
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, &runtime{path: path})
	fmt.Println("cripipe: a simulated container runtime on", pipe)
	return s.Serve(l)
}

type runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	path string
}

func (r *runtime) sandboxes() ([]simhns.Sandbox, error) {
	b, err := os.ReadFile(r.path)
	if err != nil {
		return nil, err
	}
	var list []simhns.Sandbox
	return list, json.Unmarshal(b, &list)
}

func metadata(s simhns.Sandbox) *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{Name: s.Name, Namespace: s.Namespace, Uid: s.UID}
}

func (r *runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "simulated", RuntimeVersion: "0", RuntimeApiVersion: "v1"}, nil
}

func (r *runtime) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	list, err := r.sandboxes()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	out := &runtimeapi.ListPodSandboxResponse{}
	for i, s := range list {
		out.Items = append(out.Items, &runtimeapi.PodSandbox{
			Id: s.ID, Metadata: metadata(s), State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: int64(i + 1),
		})
	}
	return out, nil
}

func (r *runtime) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	list, err := r.sandboxes()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	for i, s := range list {
		if !strings.HasPrefix(s.ID, req.PodSandboxId) {
			continue
		}
		network := &runtimeapi.PodSandboxNetworkStatus{}
		for n, ip := range s.Addresses {
			if n == 0 {
				network.Ip = ip
				continue
			}
			network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
		return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
			Id: s.ID, Metadata: metadata(s), State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: int64(i + 1), Network: network,
		}}, nil
	}
	return nil, status.Errorf(codes.NotFound, "no sandbox %q", req.PodSandboxId)
}
