// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// azureVNet is the state of Azure CNI, with endpoints of type E.
type azureVNet[E any] struct {
	Network *struct {
		ExternalInterfaces map[string]*struct {
			Networks map[string]*struct {
				Endpoints map[string]E
			}
		}
	}
}

// azureIPNet is Go's net.IPNet in JSON; the mask is base64.
type azureIPNet struct{ IP string }

type azureVNetEndpoint struct {
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

// parseAzureVNet reads the state of Azure CNI (azure-vnet.json). Defined in
// Azure/azure-container-networking: network/manager.go (networkManager, under
// the store key "Network"), network/network.go, network/endpoint.go (endpoint,
// InterfaceInfo, IPConfig), network/endpoint_linux.go and _windows.go (which
// fields each platform sets).
func parseAzureVNet(b []byte) (answer, error) {
	a, err := readAzureVNet(b, func(e *azureVNetEndpoint) (*azureVNetEndpoint, error) { return e, nil })
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		// It may be one endpoint's; decoding each apart tells, at twice the cost.
		return readAzureVNet(b, func(raw json.RawMessage) (e *azureVNetEndpoint, err error) {
			err = json.Unmarshal(raw, &e)
			return e, err
		})
	}
	return a, err
}

func readAzureVNet[E any](b []byte, decode func(E) (*azureVNetEndpoint, error)) (answer, error) {
	var file azureVNet[E]
	if err := json.Unmarshal(b, &file); err != nil {
		return answer{}, err
	}
	if file.Network == nil {
		return answer{}, errors.New(`has no "Network" object, so it is not the state of Azure CNI`)
	}
	var a answer
	for _, nic := range sorted(file.Network.ExternalInterfaces) {
		if nic == nil {
			continue
		}
		for _, network := range sorted(nic.Networks) {
			if network == nil {
				continue
			}
			for id, raw := range sorted(network.Endpoints) {
				e, err := decode(raw)
				if err == nil && e == nil {
					continue
				}
				var p pod
				if err == nil {
					p, err = e.pod()
				}
				if err != nil {
					a.leaveOut(fmt.Errorf("endpoint %q: %w", clip(id), err))
					continue
				}
				a.pods = append(a.pods, p)
			}
		}
	}
	return a, nil
}

func (e *azureVNetEndpoint) pod() (pod, error) {
	p := pod{Record: sandboxRecord(e.ContainerID)}
	p.setIdentity(e.PODName, e.PODNameSpace)
	p.addHNSEndpoint(e.HnsID)
	p.setNetNS(e.NetworkNameSpace)
	for _, ip := range e.IPAddresses {
		if err := p.addAddress(ip.IP); err != nil {
			return pod{}, err
		}
	}
	for _, nic := range sorted(e.SecondaryInterfaces) {
		if nic == nil {
			continue
		}
		for _, c := range nic.IPConfigs {
			if c == nil {
				continue
			}
			if err := p.addAddress(c.Address.IP); err != nil {
				return pod{}, err
			}
		}
	}
	return p, p.check()
}
