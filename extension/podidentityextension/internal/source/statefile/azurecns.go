// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// parseAzureCNS reads the endpoint state of Azure's container networking
// service (azure-endpoints.json). Defined in Azure/azure-container-networking:
// cns/restserver/restserver.go (EndpointInfo, IPInfo, under the store key
// "Endpoints").
func parseAzureCNS(b []byte) (answer, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return answer{}, err
	}
	raw, ok := field(file, "Endpoints")
	if !ok {
		return answer{}, errors.New(`has no "Endpoints" object, so it is not the endpoint state of Azure CNS`)
	}
	var endpoints map[string]json.RawMessage
	if err := json.Unmarshal(raw, &endpoints); err != nil {
		return answer{}, fmt.Errorf("%q: %w", "Endpoints", err)
	}
	var a answer
	for id, raw := range sorted(endpoints) {
		p, err := parseAzureCNSEndpoint(id, raw)
		if err != nil {
			a.leaveOut(fmt.Errorf("endpoint %q: %w", clip(id), err))
		} else if p != nil {
			a.pods = append(a.pods, *p)
		}
	}
	return a, nil
}

func parseAzureCNSEndpoint(id string, raw json.RawMessage) (*pod, error) {
	var e *struct {
		PodName       string
		PodNamespace  string
		IfnameToIPMap map[string]*struct {
			IPv4          []azureIPNet
			IPv6          []azureIPNet
			HnsEndpointID string
		}
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e == nil { // the service writes null for an endpoint being made
		return nil, nil
	}
	p := &pod{}
	p.setIdentity(e.PodName, e.PodNamespace)
	for ifname, nic := range sorted(e.IfnameToIPMap) {
		// A second network card on Windows has an entry of its own, whose key is
		// "<container id>-<interface>" (network/stateless_cni_windows_test.go).
		id = strings.TrimSuffix(id, "-"+ifname)
		if nic == nil {
			continue
		}
		p.addHNSEndpoint(nic.HnsEndpointID)
		for _, ip := range append(nic.IPv4, nic.IPv6...) {
			if err := p.addAddress(ip.IP); err != nil {
				return nil, err
			}
		}
	}
	p.Sandbox = id
	return p, p.check()
}
