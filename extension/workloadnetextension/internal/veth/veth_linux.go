// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// Group is the link group of our links, and doomed that of those to be
	// deleted: "wnet" and "wndl" as numbers, so that no habit of numbering from 0
	// meets them.
	Group  = 0x776e6574
	doomed = 0x776e646c
	// namePrefix and aliasPrefix are the other marks of our links.
	namePrefix  = "wn"
	aliasPrefix = "workloadnet "
)

var (
	// GatewayV4 and GatewayV6 are the first hops of every workload. They are
	// link-local: each is only meant on its own link.
	GatewayV4 = netip.AddrFrom4([4]byte{169, 254, 77, 1})
	GatewayV6 = netip.MustParseAddr("fe80::1")
)

// Gateway is the first hop for addresses like addr.
func Gateway(addr netip.Addr) netip.Addr {
	if addr.Is4() {
		return GatewayV4
	}
	return GatewayV6
}

var (
	// ErrHostNameTaken: a link that is not ours has the name ours would have.
	ErrHostNameTaken = errors.New("a link with this name exists that is not of workloadnet")
	// ErrIfNameTaken: the namespace has an interface of that name.
	ErrIfNameTaken = errors.New("the interface exists in the namespace")
	// ErrOnNetwork: the namespace has a route that the workload would need.
	ErrOnNetwork = errors.New("the namespace is on a network already: it has this route")
	// ErrNoIPv6: an interface that is to have an IPv6 address can't have any.
	ErrNoIPv6 = errors.New("IPv6 is switched off (net.ipv6.conf.*.disable_ipv6): switch it on or configure no IPv6 prefix")
	// ErrNotOurs: the link does not bear our marks.
	ErrNotOurs = errors.New("the link does not bear workloadnet's marks")
)

// HostName is the name of a workload's link on the node: 14 of the 15 bytes that
// a name can have.
func HostName(workloadID string) string {
	sum := sha256.Sum256([]byte(workloadID))
	return namePrefix + hex.EncodeToString(sum[:6])
}

// hardwareAddrs are the MAC addresses of a workload's link: of the node's end and
// of the workload's. Left to the kernel they would be random, and those udev
// replaces (systemd.link(5), MACAddressPolicy=persistent) some time after the link
// is made: a workload that has learned its gateway's by then loses its network
// until it asks again.
func hardwareAddrs(workloadID string) (node, workload net.HardwareAddr) {
	sum := sha256.Sum256([]byte(workloadID))
	return localUnicast([6]byte(sum[6:])), localUnicast([6]byte(sum[12:]))
}

// localUnicast makes an address of b that no manufacturer has given to a device.
func localUnicast(b [6]byte) net.HardwareAddr {
	const multicast, local = 1, 2
	b[0] = b[0]&^multicast | local
	return b[:]
}

// Spec is what Create makes.
type Spec struct {
	WorkloadID string
	// IfName is the interface's name in the namespace.
	IfName string
	// Addresses are the workload's, at most one a family.
	Addresses []netip.Addr
}

// Link is what Create has made.
type Link struct {
	// HostName and HostIndex are those of the node's end.
	HostName  string
	HostIndex int
	// MAC is that of the end in the namespace.
	MAC net.HardwareAddr
}

// Network makes and deletes links in the namespace it is used in. The zero value
// is ready, and safe for concurrent use.
type Network struct {
	// Fault, if set, is called before every step and fails the step in its stead.
	// It is for tests.
	Fault func(Step) error
}

func newHandle() (*netlink.Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	// rtnetlink answers before send returns; this is for a kernel that doesn't.
	if err := h.SetSocketTimeout(5 * time.Second); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Mark makes the link count as the workload's attachment. Until then it is a
// remnant, and deleted when the service starts.
func (n Network) Mark(index int, workloadID string) error {
	return n.withHandle(StepMark, func(h *netlink.Handle) error {
		return h.LinkSetAlias(linkByIndex(index), aliasPrefix+workloadID)
	})
}

// Doom takes the link off the network and has it counted as to be deleted. It
// returns ErrNotOurs, and does nothing, unless the link bears workloadID's mark;
// a link that is gone, or doomed already, is no error.
func (n Network) Doom(index int, workloadID string) error {
	return n.withHandle(StepDoom, func(h *netlink.Handle) error {
		link, err := h.LinkByIndex(index)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		attrs := link.Attrs()
		if link.Type() != "veth" || attrs.Alias != aliasPrefix+workloadID ||
			(attrs.Group != Group && attrs.Group != doomed) {
			return fmt.Errorf("%s (index %d, alias %q, group %d): %w", attrs.Name, index, attrs.Alias, attrs.Group, ErrNotOurs)
		}
		if err := h.LinkSetGroup(link, doomed); err != nil {
			return ignoreGone(err)
		}
		// Down takes the routes with it: no traffic from here on.
		return ignoreGone(h.LinkSetDown(link))
	})
}

// Delete deletes the link, which the caller knows to be ours, and waits for the
// kernel to finish. A link that is gone is no error.
func (n Network) Delete(index int) error {
	return n.withHandle(StepDelete, func(h *netlink.Handle) error {
		return ignoreGone(h.LinkDel(linkByIndex(index)))
	})
}

func (n Network) withHandle(step Step, f func(*netlink.Handle) error) error {
	return n.run(context.Background(), step, func() error {
		h, err := newHandle()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
}

// named says whether link has a name of our pattern.
func named(link netlink.Link) bool {
	name, ok := strings.CutPrefix(link.Attrs().Name, namePrefix)
	if !ok || len(name) != 12 {
		return false
	}
	_, err := hex.DecodeString(name)
	return err == nil
}

func linkByIndex(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

func gone(err error) bool {
	return errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV)
}

func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

func ipNet(addr netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}
}

func hostRoute(addr netip.Addr, index int) *netlink.Route {
	return &netlink.Route{
		LinkIndex: index, Dst: ipNet(addr, addr.BitLen()),
		Scope: netlink.SCOPE_LINK, Protocol: unix.RTPROT_STATIC,
	}
}
