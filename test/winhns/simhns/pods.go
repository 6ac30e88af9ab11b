// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package simhns

import (
	"encoding/json"
	"fmt"
)

// Sandbox is a pod as the simulated container runtime (cripipe) tells it.
type Sandbox struct {
	ID, Name, Namespace, UID string
	Addresses                []string
}

// NumberedSandbox returns the sandbox whose endpoint is Numbered(i).
func NumberedSandbox(i int) Sandbox {
	e := Numbered(i)
	return Sandbox{
		ID: e.Containers[0], Name: fmt.Sprintf("web-%d", i), Namespace: fmt.Sprintf("shop-%d", i%3),
		UID: fmt.Sprintf("0f0e0d0c-0000-4000-8000-%012x", i), Addresses: e.Addresses,
	}
}

// PutSandboxes sets the pods that the simulated container runtime tells.
func (d Dir) PutSandboxes(list ...Sandbox) {
	d.t.Helper()
	if list == nil {
		list = []Sandbox{}
	}
	b, err := json.Marshal(list)
	d.check(err)
	d.Write("sandboxes.json", string(b))
}

// AzureEndpoint is a pod as the state file of Azure CNI tells it, with the GUID of
// its HNS endpoint. One without a name is written as older builds for Windows do,
// with its container only.
type AzureEndpoint struct {
	Sandbox
	HNS string
}

// PutAzureVNet sets the content of the state file of Azure CNI.
func (d Dir) PutAzureVNet(list ...AzureEndpoint) {
	d.t.Helper()
	endpoints := map[string]any{}
	for _, s := range list {
		var addresses []any
		for _, a := range s.Addresses {
			addresses = append(addresses, map[string]any{"IP": a, "Mask": "////AA=="})
		}
		e := map[string]any{
			"Id": s.ID[:8] + "-eth0", "ContainerID": s.ID, "HnsId": s.HNS, "IfName": "eth0",
			"IPAddresses": addresses, "NICType": "InfraNIC",
		}
		if s.Name != "" {
			e["PODName"], e["PODNameSpace"] = s.Name, s.Namespace
		}
		endpoints[s.ID] = e
	}
	b, err := json.Marshal(map[string]any{"Network": map[string]any{
		"Version": "v1.6.17", "TimeStamp": "2025-01-09T16:21:18.43Z",
		"ExternalInterfaces": map[string]any{"Ethernet": map[string]any{
			"Name":     "Ethernet",
			"Networks": map[string]any{"azure": map[string]any{"Id": "azure", "Mode": "tunnel", "Endpoints": endpoints}},
		}},
	}})
	d.check(err)
	d.Write("azure-vnet.json", string(b))
}
