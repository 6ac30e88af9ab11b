// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// errNoPorts means that an answer lists no port with a GUID.
var errNoPorts = errors.New("no port in vfpctrl's list of switch ports")

// vfpPort is a port of the virtual switch.
type vfpPort struct {
	guid string
	// friendly is the endpoint's GUID if the port is a pod's; otherwise it is a
	// name ("ExternalPort", "Container NIC …").
	friendly string
	mac      string
}

// ports finds the port of an endpoint. A MAC address on several ports, which a
// port left behind can cause, counts only if the friendly name decides.
type ports struct {
	byMAC  map[string][]vfpPort
	byName map[string]string
}

// of returns the GUID of the endpoint's port, and "" if it isn't there or not
// certain.
func (p ports) of(id, mac string) string {
	if found := p.byMAC[mac]; mac != "" && len(found) == 1 {
		return found[0].guid
	}
	return p.byName[id]
}

// parsePorts parses the answer of vfpctrl's /list-vmswitch-port in either form.
func parsePorts(out []byte) (ports, error) {
	out = decodeText(out)
	if err := refused(out); err != nil {
		return ports{}, err
	}
	var (
		list []vfpPort
		err  error
	)
	if looksLikeJSON(out) {
		list, err = portsFromJSON(out)
	} else {
		list = portsFromText(out)
	}
	if err != nil {
		return ports{}, err
	}
	if len(list) == 0 {
		return ports{}, fmt.Errorf("%w: %s", errNoPorts, excerpt(out))
	}
	p := ports{byMAC: make(map[string][]vfpPort), byName: make(map[string]string)}
	for _, port := range list {
		if port.mac != "" {
			p.byMAC[port.mac] = append(p.byMAC[port.mac], port)
		}
		if id, ok := normalizeGUID(port.friendly); ok {
			if _, twice := p.byName[id]; twice {
				p.byName[id] = ""
				continue
			}
			p.byName[id] = port.guid
		}
	}
	return p, nil
}

// portsFromText parses blocks of lines "name : value", each beginning with the
// port's name, which is its GUID:
//
//	Port name             : 5D2B9C0E-1111-4AAA-8BBB-0000000000A1
//	Port Friendly name    : 1A2B3C4D-0001-4000-8000-00000000AA01
//	MAC address           : 00-15-5D-AA-00-01
//
// A port without a GUID for a name (a physical one) is left out.
func portsFromText(out []byte) []vfpPort {
	var (
		list    []vfpPort
		current vfpPort
	)
	end := func() {
		if current.guid != "" {
			list = append(list, current)
		}
		current = vfpPort{}
	}
	for line := range bytes.Lines(out) {
		name, value, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.Join(strings.Fields(name), " ")) {
		case "port name":
			end()
			current.guid, _ = normalizeGUID(value)
		case "port friendly name":
			current.friendly = value
		case "mac address":
			current.mac = normalizeMAC(value)
		}
	}
	end()
	return list
}

// portsFromJSON parses {"Ports":[{"Name":"<port GUID>","Id":"<friendly name>",
// "MacAddress":"00155DAA0001"}]}.
func portsFromJSON(out []byte) ([]vfpPort, error) {
	doc, err := decodeJSON(out)
	if err != nil {
		return nil, err
	}
	var list []vfpPort
	for _, o := range objects(doc, "Ports") {
		guid, ok := normalizeGUID(scalar(field(o, "Name")))
		if !ok {
			continue
		}
		list = append(list, vfpPort{
			guid:     guid,
			friendly: scalar(field(o, "Id")),
			mac:      normalizeMAC(scalar(field(o, "MacAddress"))),
		})
	}
	return list, nil
}
