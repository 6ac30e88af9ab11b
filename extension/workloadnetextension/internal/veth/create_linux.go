// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Creation is what one Create has made so far.
type Creation struct {
	spec      Spec
	netns     *NetNS
	host, pod *netlink.Handle
	hostLink  *netlink.Veth
	podLink   netlink.Link
	// lo is the namespace's loopback interface if it was brought up here, and
	// loAddrs the addresses it had before.
	lo      netlink.Link
	loAddrs []netlink.Addr
	closed  bool
}

// Create connects ns to the node as spec says. All or nothing: after an error,
// the link, its addresses and its routes are gone again, and lo is as it was;
// where even that failed, the error says so. The error is an *Error that wraps
// ErrHostNameTaken or ErrIfNameTaken where that is the reason, or ctx's.
// The caller closes the Creation, before ns.
func (n Network) Create(ctx context.Context, ns *NetNS, spec Spec) (*Creation, error) {
	c := &Creation{spec: spec, netns: ns}
	if err := n.create(ctx, c); err != nil {
		err = errors.Join(err, c.Undo())
		c.Close()
		return nil, err
	}
	return c, nil
}

func (n Network) create(ctx context.Context, c *Creation) error {
	for _, step := range []struct {
		step Step
		do   func() error
	}{
		{StepOpen, c.open}, {StepEnter, c.enter},
		{StepPair, c.pair}, {StepFind, c.find},
		{StepAddrGen, c.stopAddressGeneration}, {StepIgnoreRA, c.ignoreAdvertisements},
		{StepGatewayV4, func() error { return c.gateway(GatewayV4) }},
		{StepGatewayV6, func() error { return c.gateway(GatewayV6) }},
		{StepAddress, c.address}, {StepLoopback, c.loopback},
		{StepPodUp, func() error { return c.pod.LinkSetUp(c.podLink) }},
		{StepHostUp, func() error { return c.host.LinkSetUp(c.hostLink) }},
		{StepPodRoutes, c.podRoutes}, {StepHostRoutes, c.hostRoutes},
		// Last, so that the kernel's workers have had the time of the routes.
		{StepReady, func() error { return c.ready(ctx) }},
	} {
		if err := n.run(ctx, step.step, step.do); err != nil {
			return err
		}
	}
	return nil
}

// Link describes what was made.
func (c *Creation) Link() Link {
	return Link{
		HostName: c.hostLink.Name, HostIndex: c.hostLink.Index,
		MAC: c.podLink.Attrs().HardwareAddr,
	}
}

// Undo unmakes it all: the pair, with it the addresses and routes at both ends,
// and what bringing up lo has changed.
func (c *Creation) Undo() error {
	if c.closed {
		return errors.New("roll back: after Close")
	}
	var errs []error
	if c.hostLink != nil {
		errs = append(errs, ignoreGone(c.host.LinkDel(c.hostLink)))
	}
	if c.lo != nil {
		errs = append(errs, c.loopbackDown())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Close lets go of the namespaces; it ends the Creation.
func (c *Creation) Close() {
	c.closed = true // a closed handle would work on in whatever namespace the thread is in
	if c.host != nil {
		c.host.Close()
	}
	if c.pod != nil {
		c.pod.Close()
	}
}

func (c *Creation) open() (err error) {
	c.host, err = newHandle()
	return err
}

func (c *Creation) enter() (err error) {
	c.pod, err = c.netns.handle()
	return err
}

func (c *Creation) pair() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = HostName(c.spec.WorkloadID)
	attrs.Group = Group
	veth := netlink.NewVeth(attrs)
	veth.HardwareAddr, veth.PeerHardwareAddr = hardwareAddrs(c.spec.WorkloadID)
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

func (c *Creation) find() (err error) {
	c.podLink, err = c.pod.LinkByName(c.spec.IfName)
	return err
}

// stopAddressGeneration keeps the kernel from adding a link-local address of its
// own to the node's end, with duplicate address detection on the workload's link.
func (c *Creation) stopAddressGeneration() error {
	err := c.host.LinkSetIP6AddrGenMode(c.hostLink, addrGenModeNone)
	if errors.Is(err, unix.EAFNOSUPPORT) && !c.has(GatewayV6) {
		return nil // a kernel without IPv6 generates nothing
	}
	return err
}

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const addrGenModeNone = 1

// ignoreAdvertisements keeps the workload from making itself the node's router: all
// that it would take is a raw socket, on a node that does not forward IPv6.
func (c *Creation) ignoreAdvertisements() error {
	conf := sysctl("net/ipv6/conf/" + c.hostLink.Name)
	err := (conf + "/accept_ra").set("0")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has no IPv6
	}
	if heeds, _, e := conf.heedsAdvertisements(); err != nil && e == nil && !heeds {
		return nil // the host of a container with a read-only /proc/sys has seen to it
	}
	return err
}

// has says whether the workload has an address of gateway's family.
func (c *Creation) has(gateway netip.Addr) bool {
	for _, addr := range c.spec.Addresses {
		if addr.BitLen() == gateway.BitLen() {
			return true
		}
	}
	return false
}

func (c *Creation) gateway(gateway netip.Addr) error {
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
	return v6Disabled(gateway, c.host.AddrReplace(c.hostLink, addr))
}

func (c *Creation) address() error {
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
		return fmt.Errorf("%w: %w", ErrNoIPv6, err)
	}
	return err
}

func (c *Creation) loopback() error {
	lo, err := c.pod.LinkByName("lo")
	if err != nil || lo.Attrs().Flags&net.FlagUp != 0 {
		return err
	}
	if c.loAddrs, err = c.pod.AddrList(lo, unix.AF_INET); err != nil {
		return err
	}
	if err := c.pod.LinkSetUp(lo); err != nil {
		return err
	}
	c.lo = lo
	return nil
}

// loopbackDown also takes away 127.0.0.1, which the kernel adds when lo comes up
// and keeps when it goes down.
func (c *Creation) loopbackDown() error {
	errs := []error{c.pod.LinkSetDown(c.lo)}
	addrs, err := c.pod.AddrList(c.lo, unix.AF_INET)
	errs = append(errs, err)
	for _, a := range addrs {
		if !slices.ContainsFunc(c.loAddrs, a.Equal) {
			errs = append(errs, c.pod.AddrDel(c.lo, &a))
		}
	}
	return errors.Join(errs...)
}

// ready waits for what the kernel does in workers of its own, some time after it
// has acknowledged the request: until then, the first packets are lost.
func (c *Creation) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("the kernel has not done it within 5s"))
	defer cancel()
	end := func(h *netlink.Handle, index int, addrs ...netip.Addr) error {
		if err := poll(ctx, func() (bool, error) { return carrier(h, index) }); err != nil {
			return err
		}
		for _, a := range addrs {
			if err := poll(ctx, func() (bool, error) { return local(h, index, a) }); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
		}
		return nil
	}
	var gateways []netip.Addr
	for _, a := range c.spec.Addresses {
		gateways = append(gateways, Gateway(a))
	}
	if err := end(c.host, c.hostLink.Index, gateways...); err != nil {
		return err
	}
	return end(c.pod, c.podLink.Attrs().Index, c.spec.Addresses...)
}

// carrier says whether the link has noticed that its other end is up; before, it
// drops what it is to send. From Linux 6.7 on, asking for a link has the worker's
// work done (linkwatch_sync_dev in rtnl_getlink).
func carrier(h *netlink.Handle, index int) (bool, error) {
	link, err := h.LinkByIndex(index)
	return err == nil && link.Attrs().RawFlags&unix.IFF_RUNNING != 0, err
}

// local says whether the kernel takes packets to addr, on the link, for its own.
// It adds the route that makes it do so after the address (addrconf_dad_work in
// net/ipv6/addrconf.c), duplicate address detection or not.
func local(h *netlink.Handle, index int, addr netip.Addr) (bool, error) {
	routes, err := h.RouteGetWithOptions(addr.AsSlice(), &netlink.RouteGetOptions{OifIndex: index})
	if errors.Is(err, unix.ENETUNREACH) {
		return false, nil
	}
	return len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL, err
}

// poll calls f until it says yes or fails.
func poll(ctx context.Context, f func() (bool, error)) error {
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Microsecond):
		}
	}
}

func (c *Creation) podRoutes() error {
	index := c.podLink.Attrs().Index
	for _, a := range c.spec.Addresses {
		gateway := Gateway(a)
		if err := c.pod.RouteAdd(hostRoute(gateway, index)); err != nil {
			return fmt.Errorf("%s dev %s: %w", gateway, c.spec.IfName, onNetwork(err))
		}
		err := c.pod.RouteAdd(&netlink.Route{
			LinkIndex: index, Dst: ipNet(unspecified(a), 0), Gw: gateway.AsSlice(), Protocol: unix.RTPROT_STATIC,
		})
		if err != nil {
			return fmt.Errorf("default via %s dev %s: %w", gateway, c.spec.IfName, onNetwork(err))
		}
	}
	return nil
}

func onNetwork(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return ErrOnNetwork
	}
	return err
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (c *Creation) hostRoutes() error {
	for _, a := range c.spec.Addresses {
		if err := c.host.RouteAdd(hostRoute(a, c.hostLink.Index)); err != nil {
			return fmt.Errorf("%s dev %s: %w", a, c.hostLink.Name, err)
		}
	}
	return nil
}
