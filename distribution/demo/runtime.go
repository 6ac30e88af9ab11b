// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimePods counts the ready pods of this node's container runtime that have a
// network, so counters, of their own: those on the host's are all that a fresh
// control plane has. The runtime is the first that answers where podidentity's
// cri source looks for one.
func runtimePods(ctx context.Context) int {
	for _, endpoint := range []string{
		os.Getenv("CONTAINER_RUNTIME_ENDPOINT"),
		"unix:///run/containerd/containerd.sock",
		"unix:///run/crio/crio.sock",
		"unix:///var/run/cri-dockerd.sock",
	} {
		if endpoint == "" {
			continue
		}
		if n, err := networkedSandboxes(ctx, endpoint); err == nil {
			return n
		}
	}
	return 0
}

func networkedSandboxes(ctx context.Context, endpoint string) (int, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	runtime := cri.NewRuntimeServiceClient(conn)
	r, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{
		Filter: &cri.PodSandboxFilter{State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY}},
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, sandbox := range r.Items {
		s, err := runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox.Id})
		if err != nil {
			continue // gone meanwhile
		}
		if s.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() != cri.NamespaceMode_NODE {
			n++
		}
	}
	return n, nil
}
