// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// calls are the calls into HNS. They are safe for concurrent use, block for as
// long as HNS likes, and may panic.
type calls interface {
	// available reports what this Windows lacks for good, nil if nothing.
	available() error
	// enumerate appends HCN's JSON list of the endpoints in a state to buf.
	enumerate(state endpointState, buf []byte) ([]byte, error)
	// properties appends HCN's JSON properties of an endpoint to buf.
	properties(id string, buf []byte) ([]byte, error)
	// endpointsV1 lists all endpoints as the older HNS interface has them. A nil
	// list without an error is an answer without content.
	endpointsV1() ([]endpointV1, error)
	// statistics returns an endpoint's counters.
	statistics(id string) (statistics, error)
}

// program is vfpctrl.exe. It is safe for concurrent use.
type program interface {
	// run returns what the program printed, at most limit bytes. It kills the
	// program with its children when ctx ends. An error for which
	// errors.Is(err, fs.ErrNotExist) holds means that there is no such program.
	run(ctx context.Context, limit int, args ...string) ([]byte, error)
}

// endpointState is HNS's state of an endpoint (hcsshim, hns.EndpointState).
type endpointState uint16

const (
	attached        endpointState = 2
	attachedSharing endpointState = 3
)

// statistics are the counters of an endpoint and its GUID as HNS answered them.
type statistics struct {
	endpoint                string
	bytes, packets, dropped [endpoint.NumDirections]uint64
}

// endpointV1 is an endpoint as the older HNS interface lists it.
type endpointV1 struct {
	id, name, mac, namespace string
	addresses                []netip.Addr
	containers               []string
	state                    endpointState
	remote                   bool
}

func (e *endpointV1) properties() *properties {
	p := &properties{
		name:       e.name,
		mac:        normalizeMAC(e.mac),
		containers: e.containers,
		addresses:  podAddresses(e.addresses),
		remote:     e.remote,
	}
	p.namespace, _ = normalizeGUID(e.namespace)
	return p
}

// isPod reports whether an endpoint in the given state is a pod's on this node.
func (p *properties) isPod(state endpointState) bool {
	return !p.remote && (state == attachedSharing || state == attached && len(p.containers) > 0)
}

// hresult is a failure that HNS returned as a code.
type hresult uint32

const (
	accessDenied     hresult = 0x80070005
	elementNotFound  hresult = 0x80070490
	rpcUnavailable   hresult = 0x800706BA
	endpointNotFound hresult = 0x803B0002
)

func (h hresult) Error() string {
	switch h {
	case accessDenied:
		return "access denied (0x80070005): reading HNS takes the rights of LocalSystem; run the collector as a Windows service, or in a HostProcess container as NT AUTHORITY\\SYSTEM"
	case elementNotFound:
		return "element not found (0x80070490)"
	case rpcUnavailable:
		return "RPC server unavailable (0x800706ba): the HNS service doesn't run; start it with Start-Service hns"
	case endpointNotFound:
		return "endpoint not found (0x803b0002)"
	}
	return fmt.Sprintf("HNS error 0x%08x", uint32(h))
}

// vanished reports whether an endpoint is no longer there.
func vanished(err error) bool {
	return errors.Is(err, elementNotFound) || errors.Is(err, endpointNotFound)
}

// checkStatistics tells counters from what only looks like them: hcsshim returns
// zeros for an answer without content.
func checkStatistics(id string, s *statistics) error {
	switch {
	case strings.EqualFold(s.endpoint, id):
		return nil
	case s.endpoint == "":
		return errors.New("an answer without content")
	}
	return fmt.Errorf("they are those of endpoint %q", s.endpoint)
}
