//go:build !windows

// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"net"
)

// pipes says whether the platform has named pipes.
const pipes = false

// usualEndpoints are where runtimes listen unless told otherwise, in crictl's
// order.
var usualEndpoints = []socket{
	{unix, "/run/containerd/containerd.sock"},
	{unix, "/run/crio/crio.sock"},
	{unix, "/var/run/cri-dockerd.sock"},
}

func dial(ctx context.Context, s socket) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, s.network, s.address)
}

const deniedHint = "run the collector as root or give it the socket's group"
