// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// cniCacheKind marks libcni's cache files since CNI 0.8; older ones hold only
// the result, without the container's id.
const cniCacheKind = "cniCacheV1"

// parseCNIResult reads one file of libcni's cache, which any runtime that calls
// CNI plugins through libcni writes. Defined in containernetworking/cni:
// libcni/api.go (cachedInfo); the K8S_POD_ arguments are those of the CNI
// conventions, written by containerd and cri-o.
func parseCNIResult(b []byte) (answer, error) {
	var file struct {
		Kind        string     `json:"kind"`
		ContainerID string     `json:"containerId"`
		IfName      string     `json:"ifName"`
		NetworkName string     `json:"networkName"`
		NetNS       string     `json:"netns"`
		CNIArgs     [][]string `json:"cniArgs"`
		Result      *cniResult `json:"result"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return answer{}, err
	}
	if file.Kind != cniCacheKind {
		return answer{}, fmt.Errorf("kind is %q, not %q", clip(file.Kind), cniCacheKind)
	}
	if file.IfName == "lo" || file.NetworkName == "cni-loopback" {
		return answer{}, nil
	}
	if file.ContainerID == "" {
		return answer{}, errors.New("has no containerId")
	}
	p := pod{Record: sandboxRecord(file.ContainerID)}
	var name, namespace string
	for _, arg := range file.CNIArgs {
		if len(arg) != 2 {
			continue
		}
		switch arg[0] {
		case "K8S_POD_NAME":
			name = arg[1]
		case "K8S_POD_NAMESPACE":
			namespace = arg[1]
		case "K8S_POD_UID":
			p.Identity.UID = arg[1]
		}
	}
	p.setIdentity(name, namespace)
	if err := p.addCNIResult(file.Result); err != nil {
		return answer{}, err
	}
	// Older libcni leaves the path to the result's own interfaces.
	p.setNetNS(file.NetNS)
	if err := p.check(); err != nil {
		return answer{}, err
	}
	return answer{pods: []pod{p}}, nil
}

// cniResult is the result of a CNI plugin, of all versions of the
// specification (containernetworking/cni, pkg/types/{020,040,100}).
type cniResult struct {
	Interfaces []struct {
		Sandbox string `json:"sandbox"`
	} `json:"interfaces"`
	IPs []struct {
		Address   string `json:"address"`
		Interface *int   `json:"interface"`
	} `json:"ips"`
	IP4 *struct {
		IP string `json:"ip"`
	} `json:"ip4"`
	IP6 *struct {
		IP string `json:"ip"`
	} `json:"ip6"`
}

// addCNIResult adds the addresses that the plugin gave to the container, and
// its network namespace.
func (p *pod) addCNIResult(r *cniResult) error {
	if r == nil {
		return nil
	}
	sandboxed := false
	for _, i := range r.Interfaces {
		if i.Sandbox != "" {
			sandboxed = true
			p.setNetNS(i.Sandbox)
		}
	}
	for _, ip := range r.IPs {
		// An interface without a sandbox is the host's, and so is its address,
		// unless the plugin names no sandbox at all.
		if i := ip.Interface; sandboxed && i != nil && *i >= 0 && *i < len(r.Interfaces) && r.Interfaces[*i].Sandbox == "" {
			continue
		}
		if err := p.addAddress(ip.Address); err != nil {
			return err
		}
	}
	if r.IP4 != nil {
		if err := p.addAddress(r.IP4.IP); err != nil {
			return err
		}
	}
	if r.IP6 != nil {
		return p.addAddress(r.IP6.IP)
	}
	return nil
}
