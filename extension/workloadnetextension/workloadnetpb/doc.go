// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate goprotoc -I . -o . -plugin go:paths=source_relative -plugin go-grpc:paths=source_relative workloadnet.proto
//go:generate goprotoc -I . -o ../cniproxy/internal/workloadnetpb -plugin go:paths=source_relative,Mworkloadnet.proto=github.com/containerd/go-cni/internal/workloadnetpb workloadnet.proto

// Package workloadnetpb is the gRPC interface of the workloadnet extension,
// generated from workloadnet.proto. The messages are generated a second time into
// cniproxy, a module of its own that is built into other programs.
package workloadnetpb
