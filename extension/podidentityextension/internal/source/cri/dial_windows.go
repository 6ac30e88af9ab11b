// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"net"

	"github.com/Microsoft/go-winio"
)

// pipes says whether the platform has named pipes.
const pipes = true

// usualEndpoints are where runtimes listen unless told otherwise, in crictl's
// order.
var usualEndpoints = []socket{
	{npipe, `\\.\pipe\containerd-containerd`},
	{npipe, `\\.\pipe\cri-dockerd`},
}

func dial(ctx context.Context, s socket) (net.Conn, error) {
	if s.network == npipe {
		return winio.DialPipeContext(ctx, s.address)
	}
	return (&net.Dialer{}).DialContext(ctx, s.network, s.address)
}

const deniedHint = "run the collector as SYSTEM or an administrator"
