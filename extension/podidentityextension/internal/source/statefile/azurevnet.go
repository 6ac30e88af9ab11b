// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// parseAzureVNet reads the state of Azure CNI (azure-vnet.json). Defined in
// Azure/azure-container-networking: network/manager.go (networkManager, under
// the store key "Network"), network/network.go, network/endpoint.go (endpoint,
// InterfaceInfo, IPConfig), network/endpoint_linux.go and _windows.go (which
// fields each platform sets).
func parseAzureVNet(b []byte) (answer, error) {
	var file struct {
		Network *struct {
			ExternalInterfaces map[string]*struct {
				Networks map[string]*struct {
					Endpoints map[string]json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return answer{}, err
	}
	if file.Network == nil {
		return answer{}, errors.New(`has no "Network" object, so it is not the state of Azure CNI`)
	}
	var a answer
	for _, nic := range file.Network.ExternalInterfaces {
		if nic == nil {
			continue
		}
		for _, network := range nic.Networks {
			if network == nil {
				continue
			}
			for id, raw := range network.Endpoints {
				p, err := parseAzureVNetEndpoint(raw)
				if err != nil {
					a.leaveOut(fmt.Errorf("endpoint %q: %w", clip(id), err))
				} else if p != nil {
					a.pods = append(a.pods, *p)
				}
			}
		}
	}
	return a, nil
}

// azureIPNet is Go's net.IPNet in JSON; the mask is base64.
type azureIPNet struct{ IP string }

func parseAzureVNetEndpoint(raw json.RawMessage) (*pod, error) {
	var e *struct {
		HnsID        string `json:"HnsId"`
		ContainerID  string
		PODName      string
		PODNameSpace string
		IPAddresses  []azureIPNet
		// The path of the namespace on Linux; NetNs is its GUID on Windows.
		NetworkNameSpace    string
		SecondaryInterfaces map[string]*struct {
			IPConfigs []*struct{ Address azureIPNet }
		}
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e == nil {
		return nil, nil
	}
	p := &pod{Record: sandboxRecord(e.ContainerID)}
	p.setIdentity(e.PODName, e.PODNameSpace)
	p.addHNSEndpoint(e.HnsID)
	p.setNetNS(e.NetworkNameSpace)
	for _, ip := range e.IPAddresses {
		if err := p.addAddress(ip.IP); err != nil {
			return nil, err
		}
	}
	for _, nic := range e.SecondaryInterfaces {
		if nic == nil {
			continue
		}
		for _, c := range nic.IPConfigs {
			if c == nil {
				continue
			}
			if err := p.addAddress(c.Address.IP); err != nil {
				return nil, err
			}
		}
	}
	return p, p.check()
}
