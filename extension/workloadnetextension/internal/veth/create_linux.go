// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// creation is one Create under way.
type creation struct {
	spec      Spec
	netns     *NetNS
	host, pod *netlink.Handle
	hostLink  *netlink.Veth
	podLink   netlink.Link
	// lo is the namespace's loopback interface if it was brought up here.
	lo netlink.Link
}

// Create connects ns to the node as spec says. All or nothing: after an error,
// the link, its addresses and its routes are gone again, and lo is as it was;
// where even that failed, the error says so. The error is an *Error that wraps
// ErrHostNameTaken or ErrIfNameTaken where that is the reason, or ctx's.
func (n Network) Create(ctx context.Context, ns *NetNS, spec Spec) (_ Link, err error) {
	c := &creation{spec: spec, netns: ns}
	defer c.close()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.undo())
		}
	}()
	for _, step := range []struct {
		step Step
		do   func() error
	}{
		{StepOpen, c.open}, {StepEnter, c.enter},
		{StepPair, c.pair}, {StepFind, c.find},
		{StepAddrGen, c.stopAddressGeneration},
		{StepGatewayV4, func() error { return c.gateway(GatewayV4) }},
		{StepGatewayV6, func() error { return c.gateway(GatewayV6) }},
		{StepAddress, c.address}, {StepLoopback, c.loopback},
		{StepPodUp, func() error { return c.pod.LinkSetUp(c.podLink) }},
		{StepHostUp, func() error { return c.host.LinkSetUp(c.hostLink) }},
		{StepPodRoutes, c.podRoutes}, {StepHostRoutes, c.hostRoutes},
	} {
		if err := n.run(ctx, step.step, step.do); err != nil {
			return Link{}, err
		}
	}
	return Link{
		HostName: c.hostLink.Name, HostIndex: c.hostLink.Index,
		MAC: c.podLink.Attrs().HardwareAddr,
	}, nil
}

func (c *creation) open() (err error) {
	c.host, err = newHandle()
	return err
}

func (c *creation) enter() (err error) {
	c.pod, err = c.netns.handle()
	return err
}

func (c *creation) close() {
	if c.host != nil {
		c.host.Close()
	}
	if c.pod != nil {
		c.pod.Close()
	}
}

func (c *creation) pair() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = HostName(c.spec.WorkloadID)
	attrs.Group = Group
	veth := netlink.NewVeth(attrs)
	veth.PeerName = c.spec.IfName
	veth.PeerNamespace = netlink.NsFd(int(c.netns.file.Fd()))
	err := c.host.LinkAdd(veth)
	if errors.Is(err, unix.EEXIST) {
		// The kernel doesn't say which of the two names is taken.
		if _, e := c.host.LinkByName(attrs.Name); e == nil {
			return fmt.Errorf("%s: %w", attrs.Name, ErrHostNameTaken)
		}
		return fmt.Errorf("%s: %w", c.spec.IfName, ErrIfNameTaken)
	}
	if err != nil {
		return err
	}
	c.hostLink = veth
	if veth.Index == 0 {
		// LinkAdd looks the index up, and keeps quiet when that fails.
		link, err := c.host.LinkByName(attrs.Name)
		if err != nil {
			return err
		}
		veth.Index = link.Attrs().Index
	}
	return nil
}

func (c *creation) find() (err error) {
	c.podLink, err = c.pod.LinkByName(c.spec.IfName)
	return err
}

// stopAddressGeneration keeps the kernel from adding a link-local address of its
// own to the node's end, with duplicate address detection on the workload's link.
func (c *creation) stopAddressGeneration() error {
	err := c.host.LinkSetIP6AddrGenMode(c.hostLink, addrGenModeNone)
	if errors.Is(err, unix.EAFNOSUPPORT) && !c.has(GatewayV6) {
		return nil // a kernel without IPv6 generates nothing
	}
	return err
}

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const addrGenModeNone = 1

// has says whether the workload has an address of gateway's family.
func (c *creation) has(gateway netip.Addr) bool {
	for _, addr := range c.spec.Addresses {
		if addr.BitLen() == gateway.BitLen() {
			return true
		}
	}
	return false
}

func (c *creation) gateway(gateway netip.Addr) error {
	if !c.has(gateway) {
		return nil
	}
	addr := &netlink.Addr{IPNet: ipNet(gateway, gateway.BitLen())}
	if gateway.Is4() {
		// Scope host: the address answers ARP and pings, but the kernel never
		// chooses it as the source of the node's own packets to the workload.
		addr.Scope = unix.RT_SCOPE_HOST
	} else {
		// The link has two ends, and we make both: nothing to detect.
		addr.Flags = unix.IFA_F_NODAD
	}
	return v6Disabled(gateway, c.host.AddrAdd(c.hostLink, addr))
}

func (c *creation) address() error {
	for _, a := range c.spec.Addresses {
		addr := &netlink.Addr{IPNet: ipNet(a, a.BitLen())}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := v6Disabled(a, c.pod.AddrAdd(c.podLink, addr)); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}

// v6Disabled explains the error that adding an IPv6 address has where the
// interface has IPv6 switched off.
func v6Disabled(addr netip.Addr, err error) error {
	if addr.Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP)) {
		return fmt.Errorf("%w: IPv6 is switched off (net.ipv6.conf.*.disable_ipv6): switch it on or configure no IPv6 prefix", err)
	}
	return err
}

func (c *creation) loopback() error {
	lo, err := c.pod.LinkByName("lo")
	if err != nil || lo.Attrs().Flags&net.FlagUp != 0 {
		return err
	}
	if err := c.pod.LinkSetUp(lo); err != nil {
		return err
	}
	c.lo = lo
	return nil
}

func (c *creation) podRoutes() error {
	index := c.podLink.Attrs().Index
	for _, a := range c.spec.Addresses {
		gateway := Gateway(a)
		if err := c.pod.RouteAdd(hostRoute(gateway, index)); err != nil {
			return fmt.Errorf("%s dev %s: %w", gateway, c.spec.IfName, err)
		}
		err := c.pod.RouteAdd(&netlink.Route{
			LinkIndex: index, Dst: ipNet(unspecified(a), 0), Gw: gateway.AsSlice(), Protocol: unix.RTPROT_STATIC,
		})
		if err != nil {
			return fmt.Errorf("default via %s dev %s: %w", gateway, c.spec.IfName, err)
		}
	}
	return nil
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (c *creation) hostRoutes() error {
	for _, a := range c.spec.Addresses {
		if err := c.host.RouteAdd(hostRoute(a, c.hostLink.Index)); err != nil {
			return fmt.Errorf("%s dev %s: %w", a, c.hostLink.Name, err)
		}
	}
	return nil
}

// undo deletes the pair, and with it the addresses and routes at both ends.
func (c *creation) undo() error {
	var errs []error
	if c.lo != nil {
		errs = append(errs, c.pod.LinkSetDown(c.lo))
	}
	if c.hostLink != nil {
		errs = append(errs, ignoreGone(c.host.LinkDel(c.hostLink)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}
