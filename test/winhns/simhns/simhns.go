// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package simhns writes the files that the simulated HNS and vfpctrl.exe of this
// directory answer from. It works on either side of Wine.
package simhns

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// States of an endpoint.
const (
	Attached        = 2
	AttachedSharing = 3
)

// Endpoint is an HNS endpoint. Its GUID is in lower case.
type Endpoint struct {
	ID, Name, MAC, Namespace string
	Addresses                []string
	Containers               []string
	// Port is the GUID of its VFP port; with NoAllocator HNS doesn't say it.
	Port        string
	NoAllocator bool
	State       int
	Remote      bool
}

// Stats are HNS's counters of an endpoint, in its direction.
type Stats struct {
	BytesReceived, BytesSent, DroppedPacketsIncoming, DroppedPacketsOutgoing uint64
	EndpointId, InstanceId                                                   string //nolint:revive // HNS's names
	PacketsReceived, PacketsSent                                             uint64
}

// Numbered returns the i-th of any number of endpoints that differ in everything.
func Numbered(i int) Endpoint {
	return Endpoint{
		ID:         fmt.Sprintf("1a2b3c4d-0001-4000-8000-%012x", i),
		Name:       fmt.Sprintf("pod-%d", i),
		MAC:        fmt.Sprintf("00-15-5D-AA-%02X-%02X", i>>8, i&255),
		Namespace:  fmt.Sprintf("0a0b0c0d-1111-4222-8333-%012x", i),
		Addresses:  []string{fmt.Sprintf("10.244.%d.%d", i>>8, i&255), fmt.Sprintf("fd00::%x", i)},
		Containers: []string{fmt.Sprintf("%064x", i), fmt.Sprintf("c%063x", i)},
		Port:       fmt.Sprintf("5d2b9c0e-1111-4aaa-8bbb-%012x", i),
		State:      AttachedSharing,
	}
}

// NumberedStats returns counters that differ for each endpoint and counter.
func NumberedStats(i int) Stats {
	n := uint64(i) * 1000
	return Stats{
		BytesReceived: n + 1, BytesSent: n + 2, PacketsReceived: n + 3, PacketsSent: n + 4,
		DroppedPacketsIncoming: n + 5, DroppedPacketsOutgoing: n + 6,
	}
}

// Dir is a directory of answers.
type Dir struct {
	t    testing.TB
	Path string
}

// New makes an empty directory.
func New(t testing.TB) Dir {
	t.Helper()
	d := Dir{t, t.TempDir()}
	for _, sub := range []string{"hcn/endpoints", "hns/get/endpointstats", "vfp"} {
		d.check(os.MkdirAll(d.file(sub), 0o755))
	}
	return d
}

func (d Dir) file(name string) string { return filepath.Join(d.Path, filepath.FromSlash(name)) }

func (d Dir) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

var written atomic.Uint64

// Write writes a file as one: a reader sees the old or the new content.
func (d Dir) Write(name, content string) {
	d.t.Helper()
	tmp := d.file(name) + ".new" + strconv.FormatUint(written.Add(1), 10)
	d.check(os.WriteFile(tmp, []byte(content), 0o644))
	d.check(os.Rename(tmp, d.file(name)))
}

// Remove removes files; those that aren't there are no error.
func (d Dir) Remove(names ...string) {
	d.t.Helper()
	for _, name := range names {
		if err := os.Remove(d.file(name)); !os.IsNotExist(err) {
			d.check(err)
		}
	}
}

// PutEndpoint makes or changes an endpoint of HCN.
func (d Dir) PutEndpoint(e Endpoint) {
	d.t.Helper()
	d.Write("hcn/endpoints/"+e.ID+".json", e.JSON())
}

// JSON returns the endpoint as HCN describes it. State is no part of HCN's schema;
// the simulation filters by it.
func (e Endpoint) JSON() string {
	flags := 0
	if e.Remote {
		flags = 1
	}
	var addrs []any
	for _, a := range e.Addresses {
		addrs = append(addrs, map[string]any{"IpAddress": a, "PrefixLength": 24})
	}
	resources := map[string]any{}
	if !e.NoAllocator {
		resources["Allocators"] = []any{
			map[string]any{"Tag": "Policy", "IsPolicy": true},
			map[string]any{"Tag": "Endpoint Port", "EndpointPortGuid": strings.ToUpper(e.Port), "CompartmendId": 3},
		}
	}
	b, err := json.Marshal(map[string]any{
		"ID": strings.ToUpper(e.ID), "Name": e.Name, "State": e.State, "MacAddress": e.MAC, "Flags": flags,
		"HostComputeNamespace": e.Namespace, "IpConfigurations": addrs, "Policies": []any{},
		"SchemaVersion": map[string]any{"Major": 2, "Minor": 11},
		"Health": map[string]any{"Extra": map[string]any{
			"Resources": resources, "SharedContainers": e.Containers,
		}},
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	return string(b)
}

// PutStats sets an endpoint's counters.
func (d Dir) PutStats(id string, s Stats) {
	d.t.Helper()
	s.EndpointId, s.InstanceId = strings.ToUpper(id), "00000000-0000-0000-0000-000000000000"
	b, err := json.Marshal(s)
	d.check(err)
	d.Write("hns/get/endpointstats/"+id+".json", string(b))
}

// PutV1 sets the older list of endpoints.
func (d Dir) PutV1(list ...Endpoint) {
	d.t.Helper()
	v1 := []any{}
	for _, e := range list {
		m := map[string]any{
			"ID": strings.ToUpper(e.ID), "Name": e.Name, "State": e.State, "MacAddress": e.MAC,
			"SharedContainers": e.Containers, "Namespace": map[string]any{"ID": e.Namespace},
			"IsRemoteEndpoint": e.Remote,
		}
		for _, a := range e.Addresses {
			if strings.Contains(a, ":") {
				m["IPv6Address"] = a
			} else {
				m["IPAddress"] = a
			}
		}
		v1 = append(v1, m)
	}
	b, err := json.Marshal(v1)
	d.check(err)
	d.Write("hns/get/endpoints.json", string(b))
}

// RemoveEndpoint removes an endpoint and its counters.
func (d Dir) RemoveEndpoint(id string) {
	d.t.Helper()
	d.Remove("hcn/endpoints/"+id+".json", "hns/get/endpointstats/"+id+".json")
}

// Delay makes an answer take its time; name is as in the simulation's sources,
// "hns/get/endpointstats/<guid>" or "vfp/all".
func (d Dir) Delay(name string, wait time.Duration) {
	d.t.Helper()
	d.Write(name+".delay", strconv.FormatInt(wait.Milliseconds(), 10))
}

// LogCalls begins to record calls, and forgets those before.
func (d Dir) LogCalls() {
	d.t.Helper()
	d.Write("calls.log", "")
}

// Calls returns the calls since LogCalls, one a line, without the process id.
func (d Dir) Calls() []string {
	d.t.Helper()
	b, err := os.ReadFile(d.file("calls.log"))
	d.check(err)
	var calls []string
	for line := range strings.Lines(string(b)) {
		_, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		calls = append(calls, call)
	}
	return calls
}
