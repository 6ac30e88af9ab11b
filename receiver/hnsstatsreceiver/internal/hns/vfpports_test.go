// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParsePortsSamples(t *testing.T) {
	all := samples(t, "ports/*")
	crlf := []byte(nil)
	for _, c := range all["ports.txt"] {
		if c == '\n' {
			crlf = append(crlf, '\r')
		}
		crlf = append(crlf, c)
	}
	all["ports.txt with CRLF"] = crlf
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			p, err := parsePorts(b)
			require.NoError(t, err)
			const port1, port2, port3 = "5d2b9c0e-1111-4aaa-8bbb-0000000000a1", "5d2b9c0e-2222-4aaa-8bbb-0000000000a2", "5d2b9c0e-3333-4aaa-8bbb-0000000000a3"
			for mac, want := range map[string]string{
				"00-15-5D-AA-00-01": port1, "00:15:5d:aa:00:02": port2, "00155DAA0003": port3,
				"00-15-5D-AA-00-04": "", "": "",
			} {
				assert.Equal(t, want, p.of("no such endpoint", normalizeMAC(mac)), mac)
			}
			assert.Equal(t, port2, p.of("1a2b3c4d-0002-4000-8000-00000000aa02", ""), "by friendly name")
		})
	}
}

// A port that was left behind has the MAC address of the one that replaced it.
func TestPortsWithOneMACAreNotGuessed(t *testing.T) {
	const list = `{"Ports":[
		{"Name":"5D2B9C0E-1111-4AAA-8BBB-0000000000A1","Id":"1A2B3C4D-0001-4000-8000-00000000AA01","MacAddress":"00155DAA0001"},
		{"Name":"5D2B9C0E-2222-4AAA-8BBB-0000000000A2","Id":"1A2B3C4D-0002-4000-8000-00000000AA02","MacAddress":"00155DAA0001"}]}`
	p, err := parsePorts([]byte(list))
	require.NoError(t, err)
	assert.Empty(t, p.of("1a2b3c4d-0003-4000-8000-00000000aa03", "00155daa0001"))
	assert.Equal(t, "5d2b9c0e-2222-4aaa-8bbb-0000000000a2", p.of("1a2b3c4d-0002-4000-8000-00000000aa02", "00155daa0001"))
}

func TestParsePortsErrors(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"nothing":       {"", "no port"},
		"ERROR":         {"ERROR: access denied", "refused: ERROR: access denied"},
		"cut short":     {`{"Ports":[{"Name":"5D2B`, "no valid JSON"},
		"another":       {`{"Switches":[]}`, "no port"},
		"other words":   {"Portname : 5D2B9C0E-1111-4AAA-8BBB-0000000000A1\nMAC-Adresse : 00-15-5D-AA-00-01\n", "no port"},
		"a switch name": {"Port name : Ethernet\nMAC address : 00-15-5D-AA-00-01\n", "no port"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parsePorts([]byte(tt.answer))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, b := range samples(f, "ports/*") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePorts(b)
		if err != nil {
			return
		}
		for mac := range p.byMAC {
			if guid := p.of("", mac); guid != "" {
				if normal, ok := normalizeGUID(guid); !ok || normal != guid {
					t.Fatalf("port %q is no GUID", guid)
				}
			}
			if normalizeMAC(mac) != mac {
				t.Fatalf("%q is no MAC address", mac)
			}
		}
	})
}
