// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"net"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

const (
	// CNIPluginName is go-cni's.
	CNIPluginName = "cni"
	// DefaultMaxConfNum is go-cni's; GetConfig shows it, nothing else uses it.
	DefaultMaxConfNum = 1
	// DefaultPrefix and "0" are the interface's name in the workload's namespace.
	DefaultPrefix = "eth"
)

// ConfigResult is what GetConfig returns.
type ConfigResult struct {
	PluginDirs       []string
	PluginConfDir    string
	PluginMaxConfNum int
	Prefix           string
	Networks         []*ConfNetwork
}

// ConfNetwork is one network and the interface's name in it.
type ConfNetwork struct {
	Config *NetworkConfList
	IFName string
}

// NetworkConfList is a CNI configuration list with its source as text.
type NetworkConfList struct {
	Name       string
	CNIVersion string
	Plugins    []*NetworkConf
	Source     string
}

// NetworkConf is a CNI plugin's configuration with its source as text.
type NetworkConf struct {
	Network *types.NetConf
	Source  string
}

// PortMapping is a port of the node that is to lead to one of the workload. The
// service refuses them.
type PortMapping struct {
	HostPort      int32
	ContainerPort int32
	Protocol      string
	HostIP        string
}

// IPRanges are ranges that the workload's addresses should come from. The proxy
// refuses them.
type IPRanges struct {
	Subnet     string
	RangeStart string
	RangeEnd   string
	Gateway    string
}

// BandWidth is a limit in bits a second, bursts in bits. The service refuses it.
type BandWidth struct {
	IngressRate  uint64
	IngressBurst uint64
	EgressRate   uint64
	EgressBurst  uint64
}

// DNS is the workload's resolver configuration.
type DNS struct {
	Servers  []string
	Searches []string
	Options  []string
}

// IPConfig is an address and its first hop.
type IPConfig struct {
	IP      net.IP
	Gateway net.IP
}

// Result is what Setup returns. Containerd keeps it as JSON.
type Result struct {
	// Interfaces are the workload's interface, with its addresses, and the node's
	// end of it, by name.
	Interfaces map[string]*Config
	DNS        []types.DNS
	Routes     []*types.Route
	raw        []*types100.Result
}

// Raw returns the result as a CNI plugin would have given it.
func (r *Result) Raw() []*types100.Result { return r.raw }

// Config is one interface. PciID and SocketPath are always empty.
type Config struct {
	IPConfigs  []*IPConfig
	Mac        string
	Sandbox    string
	PciID      string
	SocketPath string
}

// CNIOpt is Opt.
//
// Deprecated: use Opt.
type CNIOpt = Opt

// CNIResult is Result.
//
// Deprecated: use Result.
type CNIResult = Result
