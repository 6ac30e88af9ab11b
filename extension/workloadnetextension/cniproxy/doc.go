// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package cni stands in for github.com/containerd/go-cni in a program built with
//
//	replace github.com/containerd/go-cni => …/extension/workloadnetextension/cniproxy
//
// Instead of running CNI plugins it has the workloadnet extension of
// otelcol-retina, which it calls over a unix socket, attach and detach each
// workload. The module keeps to the oldest versions of its dependencies that
// will do, so that the program's own versions stay as they are.
package cni
