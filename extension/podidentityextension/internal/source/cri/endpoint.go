// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"net/url"
	"os"
	"strings"
)

// environment is the variable by which crictl finds the runtime.
const environment = "CONTAINER_RUNTIME_ENDPOINT"

// A socket is where a runtime listens.
type socket struct {
	network string // "unix" or "npipe"
	address string // a path, with backslashes for a pipe
}

func (s socket) String() string {
	if s.network == npipe {
		return "npipe://" + strings.ReplaceAll(s.address, `\`, "/")
	}
	return s.network + "://" + s.address
}

const (
	unix  = "unix"
	npipe = "npipe"
)

// parseEndpoint reads an endpoint as the kubelet and crictl write it.
func parseEndpoint(endpoint string) (socket, error) {
	allowed := "want unix:///path/of/the.sock"
	if pipes {
		allowed += " or npipe:////./pipe/name"
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil, u.Scheme == "":
		return socket{}, fmt.Errorf("%q is no URL; %s", endpoint, allowed)
	case u.Scheme == unix && u.Host == "" && strings.HasPrefix(u.Path, "/") && len(u.Path) > 1:
		return socket{unix, u.Path}, nil
	case u.Scheme == npipe && !pipes:
		return socket{}, fmt.Errorf("%q: there are named pipes on Windows only; %s", endpoint, allowed)
	case u.Scheme == npipe && strings.HasPrefix(pipePath(u), `\\.\pipe\`):
		return socket{npipe, pipePath(u)}, nil
	}
	return socket{}, fmt.Errorf("%q is no socket that a runtime can listen on; %s", endpoint, allowed)
}

// pipePath returns a pipe's name: npipe:////./pipe/x and npipe://./pipe/x are
// both in use for it.
func pipePath(u *url.URL) string {
	path := u.Path
	if u.Host == "." {
		path = "//." + path
	}
	return strings.ReplaceAll(path, "/", `\`)
}

// findEndpoints returns where the runtime is: at what is configured, else at what
// crictl is told by the environment, else at one of the usual places.
func findEndpoints(configured string) ([]socket, error) {
	if configured != "" {
		s, err := parseEndpoint(configured)
		return []socket{s}, err
	}
	if e := os.Getenv(environment); e != "" {
		if strings.HasPrefix(e, "/") { // as crictl takes it, too
			e = unix + "://" + e
		}
		s, err := parseEndpoint(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", environment, err)
		}
		return []socket{s}, nil
	}
	return usualEndpoints, nil
}
