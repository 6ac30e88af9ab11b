// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"os"
	"strings"
)

const (
	// SocketEnv is the environment variable that names the service's socket.
	SocketEnv = "WORKLOADNET_SOCKET"
	// DefaultSocket is where the service listens by default.
	DefaultSocket = "/run/otelcol-retina/workloadnet.sock"
)

// Opt sets an option of a CNI.
type Opt func(*proxy) error

// WithSocket sets the path of the service's socket. Without it, it is that of the
// environment variable WORKLOADNET_SOCKET, else DefaultSocket.
func WithSocket(path string) Opt {
	return func(p *proxy) error {
		p.socket = strings.TrimPrefix(path, "unix://")
		return nil
	}
}

func socketFromEnv() string {
	if path := os.Getenv(SocketEnv); path != "" {
		return strings.TrimPrefix(path, "unix://")
	}
	return DefaultSocket
}

// WithInterfacePrefix sets the interface's name, without its "0".
func WithInterfacePrefix(prefix string) Opt {
	return func(p *proxy) error {
		p.config.Prefix = prefix
		return nil
	}
}

// WithPluginDir is shown by GetConfig and has no other effect.
func WithPluginDir(dirs []string) Opt {
	return func(p *proxy) error {
		p.config.PluginDirs = dirs
		return nil
	}
}

// WithPluginConfDir is shown by GetConfig and has no other effect.
func WithPluginConfDir(dir string) Opt {
	return func(p *proxy) error {
		p.config.PluginConfDir = dir
		return nil
	}
}

// WithPluginMaxConfNum is shown by GetConfig and has no other effect.
func WithPluginMaxConfNum(maxConfigs int) Opt {
	return func(p *proxy) error {
		p.config.PluginMaxConfNum = maxConfigs
		return nil
	}
}

// WithMinNetworkCount has no effect: the service has one network, and lo.
func WithMinNetworkCount(int) Opt { return func(*proxy) error { return nil } }

// WithLoNetwork has no effect: the service brings up lo for every workload.
func WithLoNetwork(*proxy) error { return nil }

// WithDefaultConf has no effect: the node's default network is the service's.
func WithDefaultConf(*proxy) error { return nil }

// WithAllConf has no effect: the node's only network is the service's.
func WithAllConf(*proxy) error { return nil }

// WithConf is refused, like every option that brings a CNI configuration with it:
// its author wants plugins to be run.
func WithConf([]byte) Opt { return refuseConf("WithConf") }

// WithConfIndex is refused.
func WithConfIndex([]byte, int) Opt { return refuseConf("WithConfIndex") }

// WithConfFile is refused.
func WithConfFile(fileName string) Opt { return refuseConf("WithConfFile " + fileName) }

// WithConfListBytes is refused.
func WithConfListBytes([]byte) Opt { return refuseConf("WithConfListBytes") }

// WithConfListFile is refused.
func WithConfListFile(fileName string) Opt { return refuseConf("WithConfListFile " + fileName) }

func refuseConf(option string) Opt {
	return func(*proxy) error {
		return fmt.Errorf("%s: workloadnet runs no CNI plugins: %w", option, ErrInvalidConfig)
	}
}
