// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// ciliumHeaderPrefix begins the endpoint's state in the C header that Cilium
// wrote before it had a JSON file of its own.
const ciliumHeaderPrefix = "CILIUM_BASE64_"

// parseCilium reads the state of one Cilium endpoint: ep_config.json, or the
// ep_config.h of older agents, where a comment holds
// "CILIUM_BASE64_<version>:<JSON in base64>". Defined in cilium/cilium:
// pkg/endpoint/restore.go (serializableEndpoint), pkg/endpoint/bpf.go
// (writeHeaderfile).
func parseCilium(b []byte) (answer, error) {
	if !isObject(b) {
		var err error
		if b, err = ciliumHeaderState(b); err != nil {
			return answer{}, err
		}
	}
	var e *struct {
		DockerID           string
		ContainerNetnsPath string
		IPv4               string
		IPv6               string
		K8sPodName         string
		K8sNamespace       string
		K8sUID             string
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return answer{}, err
	}
	if e == nil {
		return answer{}, errors.New("holds no object")
	}
	// The node's own endpoints (host, health, ingress) have an address and no
	// container.
	if e.DockerID == "" && e.K8sPodName == "" {
		return answer{}, nil
	}
	p := pod{Record: sandboxRecord(e.DockerID)}
	p.setIdentity(e.K8sPodName, e.K8sNamespace)
	p.Identity.UID = e.K8sUID
	p.setNetNS(e.ContainerNetnsPath)
	if err := errors.Join(p.addAddress(e.IPv4), p.addAddress(e.IPv6)); err != nil {
		return answer{}, err
	}
	if err := p.check(); err != nil {
		return answer{}, err
	}
	return answer{pods: []pod{p}}, nil
}

func ciliumHeaderState(b []byte) ([]byte, error) {
	_, line, ok := bytes.Cut(b, []byte(ciliumHeaderPrefix))
	if !ok {
		return nil, fmt.Errorf("holds neither a JSON object nor a line with %s", ciliumHeaderPrefix)
	}
	line, _, ok = bytes.Cut(line, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("its line with %s does not end: half-written", ciliumHeaderPrefix)
	}
	_, encoded, _ := bytes.Cut(line, []byte(":"))
	state, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(encoded))
	if err != nil {
		return nil, fmt.Errorf("its line with %s: %w", ciliumHeaderPrefix, err)
	}
	return state, nil
}
