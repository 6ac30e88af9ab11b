// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	pb "github.com/containerd/go-cni/internal/workloadnetpb"
)

// newResult returns an attachment in the form of go-cni's result, and of a CNI
// plugin's. sandbox is the path of the namespace.
func newResult(a *pb.Attachment, sandbox string) (*Result, error) {
	ifName := a.GetNetns().GetIfName()
	if ifName == "" || len(a.GetAddresses()) == 0 {
		return nil, fmt.Errorf("the service answered without interface or address: %w", ErrInvalidResult)
	}
	raw := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{
			{Name: a.GetHostInterface()},
			{Name: ifName, Mac: a.GetMac(), Sandbox: sandbox},
		},
		DNS: types.DNS{
			Nameservers: a.GetDns().GetServers(), Search: a.GetDns().GetSearches(), Options: a.GetDns().GetOptions(),
		},
	}
	pod := &Config{Mac: a.GetMac(), Sandbox: sandbox}
	for _, addr := range a.GetAddresses() {
		ip, gateway := net.ParseIP(addr.GetIp()), net.ParseIP(addr.GetGateway())
		if ip == nil || gateway == nil {
			return nil, fmt.Errorf("the service answered with the address %q and the gateway %q: %w", addr.GetIp(), addr.GetGateway(), ErrInvalidResult)
		}
		bits, zero := 128, net.IPv6zero
		if v4 := ip.To4(); v4 != nil {
			ip, gateway, bits, zero = v4, gateway.To4(), 32, net.IPv4zero.To4()
		}
		pod.IPConfigs = append(pod.IPConfigs, &IPConfig{IP: ip, Gateway: gateway})
		raw.IPs = append(raw.IPs, &types100.IPConfig{
			Interface: types100.Int(1), Gateway: gateway,
			Address: net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)},
		})
		raw.Routes = append(raw.Routes, &types.Route{Dst: net.IPNet{IP: zero, Mask: net.CIDRMask(0, bits)}, GW: gateway})
	}
	return &Result{
		Interfaces: map[string]*Config{ifName: pod, a.GetHostInterface(): {}},
		DNS:        []types.DNS{raw.DNS},
		Routes:     raw.Routes,
		raw:        []*types100.Result{raw},
	}, nil
}
