// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// pipes says whether the platform has named pipes.
const pipes = true

// usualEndpoints are where runtimes listen unless told otherwise, in crictl's
// order.
var usualEndpoints = []socket{
	{npipe, `\\.\pipe\containerd-containerd`},
	{npipe, `\\.\pipe\cri-dockerd`},
}

func exists(s socket) bool {
	_, err := os.Stat(s.address)
	return err == nil || errors.Is(err, windows.ERROR_PIPE_BUSY)
}

func dial(ctx context.Context, s socket) (net.Conn, error) {
	if s.network == npipe {
		return winio.DialPipeContext(ctx, s.address)
	}
	return (&net.Dialer{}).DialContext(ctx, s.network, s.address)
}

const deniedHint = "run the collector as SYSTEM or an administrator"
