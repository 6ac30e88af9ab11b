// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sampleID = "1a2b3c4d-0001-4000-8000-00000000aa01"

func addrs(s ...string) []netip.Addr {
	out := make([]netip.Addr, 0, len(s))
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestParseEndpointSample(t *testing.T) {
	p, err := parseEndpoint(sampleID, samples(t, "endpoints/*")["pod.json"])
	require.NoError(t, err)
	assert.Equal(t, &properties{
		name:       "1f206290-eth0",
		mac:        "00155daa0001",
		namespace:  "0a0b0c0d-1111-4222-8333-00000000bb01",
		port:       "5d2b9c0e-1111-4aaa-8bbb-0000000000a1",
		containers: []string{"7c31b7f3a8b1", "9d42c8e4b9c2"},
		// Every address that tells pods apart, IPv4 first.
		addresses: addrs("10.244.1.5", "10.244.1.105", "fd00::5"),
	}, p)
}

func TestParseEndpointErrors(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"nothing":          {``, "no valid JSON"},
		"cut short":        {`{"ID":"` + sampleID + `","Na`, "no valid JSON"},
		"no content":       {`{}`, `endpoint ""`},
		"null":             {`null`, `endpoint ""`},
		"another endpoint": {`{"ID":"1a2b3c4d-0002-4000-8000-00000000aa02"}`, `endpoint "1a2b3c4d-0002-4000-8000-00000000aa02"`},
		"a bad address":    {`{"ID":"` + sampleID + `","IpConfigurations":[{"IpAddress":"10.0.0.300"}]}`, "IpConfigurations[].IpAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseEndpoint(sampleID, []byte(tt.answer))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestParseEndpointShapes(t *testing.T) {
	const port = "5d2b9c0e-1111-4aaa-8bbb-0000000000a1"
	const other = "5d2b9c0e-2222-4aaa-8bbb-0000000000a2"
	for name, tt := range map[string]struct {
		extra      string
		port       string
		containers []string
	}{
		"nothing":                         {extra: `{}`},
		"nulls":                           {extra: `{"Resources":null,"SharedContainers":null}`},
		"one allocator, no list":          {extra: `{"Resources":{"Allocators":{"EndpointPortGuid":"` + port + `"}}}`, port: port},
		"JSON in JSON":                    {extra: `{"Resources":"{\"Allocators\":[{\"EndpointPortGuid\":\"{` + strings.ToUpper(port) + `}\"}]}"}`, port: port},
		"the tagged one of two":           {extra: `{"Resources":{"Allocators":[{"EndpointPortGuid":"` + other + `"},{"EndpointPortGuid":"` + port + `","Tag":"Endpoint Port"}]}}`, port: port},
		"two of them":                     {extra: `{"Resources":{"Allocators":[{"EndpointPortGuid":"` + other + `"},{"EndpointPortGuid":"` + port + `"}]}}`},
		"the same twice":                  {extra: `{"Resources":{"Allocators":[{"EndpointPortGuid":"` + port + `"},{"EndpointPortGuid":"` + port + `"}]}}`, port: port},
		"no GUID":                         {extra: `{"Resources":{"Allocators":[{"EndpointPortGuid":"/port"}]}}`},
		"resources of another kind":       {extra: `{"Resources":[1,2]}`},
		"containers in a string":          {extra: `{"SharedContainers":"[\"a\",\"b\"]"}`, containers: []string{"a", "b"}},
		"one container":                   {extra: `{"SharedContainers":"a"}`, containers: []string{"a"}},
		"containers of another kind":      {extra: `{"SharedContainers":[{"ID":"a"}]}`},
		"containers that are not strings": {extra: `{"SharedContainers":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parseEndpoint(sampleID, []byte(`{"ID":"`+sampleID+`","Health":{"Extra":`+tt.extra+`}}`))
			require.NoError(t, err)
			assert.Equal(t, tt.port, p.port)
			assert.Equal(t, tt.containers, p.containers)
		})
	}
}

func TestIsPod(t *testing.T) {
	shared := []string{"c"}
	for name, tt := range map[string]struct {
		p     properties
		state endpointState
		want  bool
	}{
		"attached-sharing":                    {properties{}, attachedSharing, true},
		"attached with a container":           {properties{containers: shared}, attached, true},
		"attached, the node's own":            {properties{}, attached, false},
		"attached-sharing on another node":    {properties{remote: true, containers: shared}, attachedSharing, false},
		"attached with a container elsewhere": {properties{remote: true, containers: shared}, attached, false},
		"detached":                            {properties{containers: shared}, 4, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, tt.p.isPod(tt.state)) })
	}
}

func TestParseIDs(t *testing.T) {
	ids, err := parseIDs([]byte(`["{1A2B3C4D-0001-4000-8000-00000000AA01}","1a2b3c4d-0002-4000-8000-00000000aa02"]`))
	require.NoError(t, err)
	assert.Equal(t, []string{sampleID, "1a2b3c4d-0002-4000-8000-00000000aa02"}, ids)
	ids, err = parseIDs([]byte(`[]`))
	require.NoError(t, err)
	assert.Empty(t, ids)
	for answer, want := range map[string]string{
		``: "no JSON list", `null`: "without content", `["1a2b`: "no JSON list", `{"a":1}`: "no JSON list", `["x"]`: `"x" in it is no GUID`,
	} {
		_, err := parseIDs([]byte(answer))
		require.ErrorContains(t, err, want, answer)
	}
}

func TestNormalizeMAC(t *testing.T) {
	for _, s := range []string{"00-15-5D-AA-00-01", "00:15:5d:aa:00:01", "00155DAA0001", "0015.5daa.0001", " 00-15-5d-aa-00-01 "} {
		assert.Equal(t, "00155daa0001", normalizeMAC(s), s)
	}
	for _, s := range []string{"", "00-15-5D-AA-00", "00-15-5D-AA-00-01-02", "00-15-5D-AA-00-0G", "00-00-00-00-00-00"} {
		assert.Empty(t, normalizeMAC(s), s)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, b := range samples(f, "endpoints/*") {
		f.Add(b)
	}
	f.Add([]byte(`{"ID":"` + sampleID + `","Health":{"Extra":{"Resources":"{\"Allocators\":{}}","SharedContainers":"a"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseEndpoint(sampleID, b)
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatal("understood what is no JSON")
		}
		for _, a := range p.addresses {
			if a.IsLinkLocalUnicast() || a.Is4In6() || a.Zone() != "" {
				t.Fatalf("address %s tells no pods apart", a)
			}
		}
	})
}

func FuzzParseIDs(f *testing.F) {
	f.Add([]byte(`["1a2b3c4d-0002-4000-8000-00000000aa02"]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, _ := parseIDs(b)
		for _, id := range ids {
			if guid, ok := normalizeGUID(id); !ok || guid != id {
				t.Fatalf("%q is no GUID", id)
			}
		}
	})
}
