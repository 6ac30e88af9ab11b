// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// flagRemote marks an endpoint of a pod on another node (hcsshim,
// hcn.EndpointFlagsRemoteEndpoint).
const flagRemote = 1

// portTag is the Tag of the allocator that is the endpoint's switch port.
const portTag = "Endpoint Port"

// properties are what is read of an endpoint besides its counters.
type properties struct {
	name       string
	mac        string // twelve hex digits in lower case, "" if there is none
	namespace  string // HCN namespace GUID in lower case
	port       string // VFP port GUID, "" if HNS doesn't say
	containers []string
	addresses  []netip.Addr // IPv4 before IPv6, otherwise HNS's order
	remote     bool
}

// hcnEndpoint is the part of HCN's HostComputeEndpoint that is used: hcsshim
// v0.14.1 hcn/hcnendpoint.go, and for what is below Health.Extra.Resources,
// where hcsshim stops, Microsoft's SDN debugging scripts.
type hcnEndpoint struct {
	ID                   string
	Name                 string
	HostComputeNamespace string
	MacAddress           string
	Flags                uint32
	IpConfigurations     []struct{ IpAddress string } //nolint:revive // HCN's name
	SharedContainers     json.RawMessage
	Health               struct {
		Extra struct {
			Resources        json.RawMessage
			SharedContainers json.RawMessage
		}
	}
}

// parseIDs parses the answer of HcnEnumerateEndpoints, a list of GUIDs. A null
// or empty answer is an error: no endpoints is "[]".
func parseIDs(b []byte) ([]string, error) {
	var ids []string
	if err := json.Unmarshal(b, &ids); err != nil {
		return nil, fmt.Errorf("no JSON list of strings: %w", err)
	}
	if ids == nil {
		return nil, errors.New("an answer without content")
	}
	for i, id := range ids {
		guid, ok := normalizeGUID(id)
		if !ok {
			return nil, fmt.Errorf("%q in it is no GUID", id)
		}
		ids[i] = guid
	}
	return ids, nil
}

// parseEndpoint parses the answer of HcnQueryEndpointProperties for the endpoint
// with the given GUID.
func parseEndpoint(id string, b []byte) (*properties, error) {
	var e hcnEndpoint
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("no valid JSON: %w", err)
	}
	if guid, _ := normalizeGUID(e.ID); guid != id {
		return nil, fmt.Errorf("they are those of endpoint %q", e.ID)
	}
	p := &properties{
		name:       e.Name,
		mac:        normalizeMAC(e.MacAddress),
		port:       portGUID(e.Health.Extra.Resources),
		containers: stringList(e.Health.Extra.SharedContainers),
		remote:     e.Flags&flagRemote != 0,
	}
	if len(p.containers) == 0 {
		p.containers = stringList(e.SharedContainers)
	}
	p.namespace, _ = normalizeGUID(e.HostComputeNamespace)
	addrs := make([]netip.Addr, 0, len(e.IpConfigurations))
	for _, c := range e.IpConfigurations {
		if c.IpAddress == "" {
			continue // not assigned yet
		}
		a, err := netip.ParseAddr(c.IpAddress)
		if err != nil {
			return nil, fmt.Errorf("IpConfigurations[].IpAddress: %w", err)
		}
		addrs = append(addrs, a)
	}
	p.addresses = podAddresses(addrs)
	return p, nil
}

// podAddresses returns the addresses that can tell pods apart, IPv4 first.
func podAddresses(addrs []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, 0, len(addrs))
	for _, want4 := range []bool{true, false} {
		for _, a := range addrs {
			if a, ok := podidentity.NormalizeAddr(a); ok && a.Is4() == want4 {
				out = append(out, a)
			}
		}
	}
	return out
}

// allocator is one entry of Health.Extra.Resources.Allocators.
type allocator struct {
	EndpointPortGuid string //nolint:revive // HNS's name
	Tag              string
}

// portGUID finds the switch port among an endpoint's resources. It returns ""
// when there is none, or more than one that could be it.
func portGUID(resources json.RawMessage) string {
	var r struct{ Allocators json.RawMessage }
	if json.Unmarshal(unquote(resources), &r) != nil {
		return ""
	}
	var all []allocator
	if json.Unmarshal(r.Allocators, &all) != nil {
		var one allocator
		if json.Unmarshal(r.Allocators, &one) != nil {
			return ""
		}
		all = []allocator{one}
	}
	var tagged, other []string
	for _, a := range all {
		guid, ok := normalizeGUID(a.EndpointPortGuid)
		switch {
		case !ok:
		case strings.EqualFold(a.Tag, portTag):
			tagged = append(tagged, guid)
		default:
			other = append(other, guid)
		}
	}
	if len(tagged) == 0 {
		tagged = other
	}
	if tagged = slices.Compact(tagged); len(tagged) != 1 {
		return ""
	}
	return tagged[0]
}

// stringList parses a JSON list of strings, or a single string. Anything else is
// an empty list: the ids are keys, and a key is never guessed.
func stringList(b json.RawMessage) []string {
	var list []string
	if json.Unmarshal(unquote(b), &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(b, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

// unquote returns the content of a JSON string, and anything else as it is:
// HNS's "extra" properties are JSON inside JSON in some builds.
func unquote(b json.RawMessage) json.RawMessage {
	var s string
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '"' || json.Unmarshal(b, &s) != nil {
		return b
	}
	return json.RawMessage(s)
}

// normalizeGUID returns a GUID without braces and in lower case, and whether it
// is one.
func normalizeGUID(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) == 38 && s[0] == '{' && s[37] == '}' {
		s = s[1:37]
	}
	if len(s) != 36 {
		return "", false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return "", false
			}
		default:
			if !isHex(s[i]) {
				return "", false
			}
		}
	}
	return strings.ToLower(s), true
}

// normalizeMAC returns the twelve digits of a MAC address in lower case, or ""
// if it has any other number of them or is all zeros.
func normalizeMAC(s string) string {
	var mac [12]byte
	n := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '-' || c == ':' || c == '.' || c == ' ':
		case isHex(c) && n < len(mac):
			mac[n] = c | 0x20 // digits have the bit already
			n++
		default:
			return ""
		}
	}
	if n != len(mac) || string(mac[:]) == "000000000000" {
		return ""
	}
	return string(mac[:])
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
