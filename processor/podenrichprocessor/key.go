// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/address"
)

// Attributes that keys are read from and names are written to.
const (
	attrPodName     = "k8s.pod.name"
	attrNamespace   = "k8s.namespace.name"
	attrPodUID      = "k8s.pod.uid"
	attrPodIP       = "k8s.pod.ip"
	attrContainerID = "container.id"
	attrHNSEndpoint = "hns.endpoint.id"
	attrHNSNS       = "hns.namespace.id" // beside the endpoint's, and weaker
	attrNetNS       = "linux.netns.inode"
	prefixLabel     = "k8s.pod.label."
	prefixAnno      = "k8s.pod.annotation."
)

// key is one field of a podidentity.Query.
type key uint8

const (
	keyAddress key = iota
	keyUID
	keySandbox
	keyHNSEndpoint
	keyNetNS
	numKeys
)

func (k key) String() string {
	return [numKeys]string{"address", "pod UID", "sandbox id", "HNS endpoint id", "network namespace"}[k]
}

// source is where one key of an association is found.
type source struct {
	key       key
	attribute string // "" means the connection
}

func (s SourceConfig) source() source {
	src := source{key: keyAddress, attribute: s.Name}
	switch s.Name {
	case attrPodUID:
		src.key = keyUID
	case attrContainerID:
		src.key = keySandbox
	case attrHNSEndpoint:
		src.key = keyHNSEndpoint
	case attrNetNS:
		src.key = keyNetNS
	}
	return src
}

// setKey puts an attribute's value into the query, and reports whether it is a
// value that the key can have.
func setKey(q *podidentity.Query, k key, v pcommon.Value) bool {
	if k == keyNetNS {
		inode, ok := inodeOf(v)
		q.NetNS = inode
		return ok
	}
	if v.Type() != pcommon.ValueTypeStr || v.Str() == "" {
		return false
	}
	switch k {
	case keyUID:
		q.UID = v.Str()
	case keySandbox:
		q.Sandbox = v.Str()
	case keyHNSEndpoint:
		q.HNSEndpoint = v.Str()
	default:
		addr, ok := address.Parse(v.Str())
		q.Address = addr
		return ok
	}
	return true
}

// inodeOf reads a namespace's inode number; processors between hnsstats and
// here may have made a string of the integer.
func inodeOf(v pcommon.Value) (uint64, bool) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return uint64(v.Int()), v.Int() > 0
	case pcommon.ValueTypeStr:
		n, err := strconv.ParseUint(v.Str(), 10, 64)
		return n, err == nil && n > 0
	}
	return 0, false
}

// senderOf returns the client that pushed the data, as the receiver saw it.
func senderOf(ctx context.Context) sender {
	var addr netip.Addr
	switch a := client.FromContext(ctx).Addr.(type) {
	case nil:
		return sender{}
	case *net.TCPAddr:
		addr = a.AddrPort().Addr()
	case *net.UDPAddr:
		addr = a.AddrPort().Addr()
	case *net.IPAddr:
		addr, _ = netip.AddrFromSlice(a.IP)
	default: // a receiver's own type, or a socket file
		addr, _ = address.Parse(a.String())
	}
	addr, _ = podidentity.NormalizeAddr(addr)
	return sender{addr: addr, known: true}
}
