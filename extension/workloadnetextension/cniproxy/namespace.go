// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"

	pb "github.com/containerd/go-cni/internal/workloadnetpb"
)

// Namespace is one workload's network namespace and what is asked for it.
type Namespace struct {
	id, path     string
	args         map[string]string
	capabilities map[string]interface{}
}

// NamespaceOpts sets an option of a Namespace.
type NamespaceOpts func(*Namespace) error

// The CNI conventions' names of capabilities (cni.dev/docs/conventions), and
// containerd's own for a pod's annotations.
const (
	capPortMappings = "portMappings"
	capIPRanges     = "ipRanges"
	capBandwidth    = "bandwidth"
	capDNS          = "dns"
	capCgroupPath   = "cgroupPath"
	capAnnotations  = "io.kubernetes.cri.pod-annotations"
)

// refusedCapabilities ask for what the workload would miss if they were ignored.
// Others that the proxy does not know are ignored, as CNI plugins do.
var refusedCapabilities = []string{capIPRanges, "ips", "mac", "infinibandGUID", "deviceID", "aliases"}

// WithCapabilityPortMap asks for port mappings, which the service refuses.
func WithCapabilityPortMap(portMapping []PortMapping) NamespaceOpts {
	return WithCapability(capPortMappings, portMapping)
}

// WithCapabilityIPRanges asks for addresses of these ranges, which Setup refuses.
func WithCapabilityIPRanges(ipRanges []IPRanges) NamespaceOpts {
	return WithCapability(capIPRanges, ipRanges)
}

// WithCapabilityBandWidth asks for a limit, which the service refuses.
func WithCapabilityBandWidth(bandWidth BandWidth) NamespaceOpts {
	return WithCapability(capBandwidth, bandWidth)
}

// WithCapabilityDNS passes on the workload's resolver configuration.
func WithCapabilityDNS(dns DNS) NamespaceOpts { return WithCapability(capDNS, dns) }

// WithCapabilityCgroupPath is ignored: nothing here needs the path.
func WithCapabilityCgroupPath(cgroupPath string) NamespaceOpts {
	return WithCapability(capCgroupPath, cgroupPath)
}

// WithCapability sets a capability by its name in the CNI conventions.
func WithCapability(name string, capability interface{}) NamespaceOpts {
	return func(n *Namespace) error {
		n.capabilities[name] = capability
		return nil
	}
}

// WithLabels sets CNI arguments, among them the workload's name.
func WithLabels(labels map[string]string) NamespaceOpts {
	return func(n *Namespace) error {
		for k, v := range labels {
			n.args[k] = v
		}
		return nil
	}
}

// WithArgs sets a CNI argument.
func WithArgs(k, v string) NamespaceOpts {
	return func(n *Namespace) error {
		n.args[k] = v
		return nil
	}
}

func newNamespace(id, path string, opts []NamespaceOpts) (*Namespace, error) {
	n := &Namespace{id: id, path: path, args: map[string]string{}, capabilities: map[string]interface{}{}}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// request is what Setup asks the service for.
func (n *Namespace) request(ifName string) (*pb.AttachRequest, error) {
	req := &pb.AttachRequest{
		WorkloadId: n.id,
		Netns:      &pb.NetNS{NetnsPath: n.path, IfName: ifName},
		Workload: &pb.Workload{
			Name: n.args["K8S_POD_NAME"], Namespace: n.args["K8S_POD_NAMESPACE"], Uid: n.args["K8S_POD_UID"],
		},
	}
	if req.Workload.Name == "" {
		req.Workload.Name = n.id // as with `ctr run --cni`: the id is all the name it has
	}
	if err := n.checkArgs(); err != nil {
		return nil, err
	}
	for _, name := range refusedCapabilities {
		if _, asked := n.capabilities[name]; asked {
			return nil, fmt.Errorf("workload %s: the capability %q is not one that workloadnet has: %w", n.id, name, ErrInvalidConfig)
		}
	}
	for name, take := range map[string]func(interface{}) bool{
		capPortMappings: func(v interface{}) bool { return takePortMappings(req, v) },
		capBandwidth:    func(v interface{}) bool { return takeBandwidth(req, v) },
		capDNS:          func(v interface{}) bool { return takeDNS(req, v) },
		capAnnotations:  func(v interface{}) bool { return takeAnnotations(req, v) },
	} {
		if v, asked := n.capabilities[name]; asked && !take(v) {
			return nil, fmt.Errorf("workload %s: the capability %q has the type %T: %w", n.id, name, v, ErrInvalidConfig)
		}
	}
	return req, nil
}

// checkArgs refuses arguments that are not known, unless the caller says that they
// may be ignored; as CNI plugins do (cni.dev/docs/spec, CNI_ARGS).
func (n *Namespace) checkArgs() error {
	if v := n.args["IgnoreUnknown"]; v == "1" || v == "true" {
		return nil
	}
	for k := range n.args {
		switch k {
		case "IgnoreUnknown", "K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_UID", "K8S_POD_INFRA_CONTAINER_ID":
		default:
			return fmt.Errorf("workload %s: the argument %q is not one that workloadnet has, and IgnoreUnknown is not set: %w", n.id, k, ErrInvalidConfig)
		}
	}
	return nil
}

func takePortMappings(req *pb.AttachRequest, v interface{}) bool {
	mappings, ok := v.([]PortMapping)
	for _, m := range mappings {
		req.PortMappings = append(req.PortMappings, &pb.PortMapping{
			HostPort: m.HostPort, ContainerPort: m.ContainerPort, Protocol: m.Protocol, HostIp: m.HostIP,
		})
	}
	return ok
}

func takeBandwidth(req *pb.AttachRequest, v interface{}) bool {
	b, ok := v.(BandWidth)
	if b != (BandWidth{}) {
		req.Bandwidth = &pb.Bandwidth{
			IngressRate: b.IngressRate, IngressBurst: b.IngressBurst, EgressRate: b.EgressRate, EgressBurst: b.EgressBurst,
		}
	}
	return ok
}

func takeDNS(req *pb.AttachRequest, v interface{}) bool {
	dns, ok := v.(DNS)
	if ok {
		req.Dns = &pb.DNS{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
	}
	return ok
}

func takeAnnotations(req *pb.AttachRequest, v interface{}) bool {
	annotations, ok := v.(map[string]string)
	req.Workload.Annotations = annotations
	return ok
}
