// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// State is what a link's marks say of it.
type State uint8

const (
	// Marked: it is the attachment of Found.WorkloadID.
	Marked State = iota
	// Remnant: its Create never got as far as Mark.
	Remnant
	// Doomed: its workload was detached, the link is to be deleted.
	Doomed
)

// Found is a link of ours.
type Found struct {
	Name       string
	Index      int
	State      State
	WorkloadID string // if Marked
}

// List returns the links of ours on the node. Links that bear only some of our
// marks are somebody else's, and left out.
func (n Network) List() (found []Found, err error) {
	err = n.withHandle(StepList, func(h *netlink.Handle) error {
		links, err := dump(h.LinkList)
		for _, link := range links {
			if f, ok := classify(link); ok {
				found = append(found, f)
			}
		}
		return err
	})
	return found, err
}

// dump repeats a dump that the kernel says was torn by a change.
func dump[T any](f func() ([]T, error)) (all []T, err error) {
	for range 10 {
		all, err = f()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func classify(link netlink.Link) (Found, bool) {
	attrs := link.Attrs()
	f := Found{Name: attrs.Name, Index: attrs.Index}
	id, marked := strings.CutPrefix(attrs.Alias, aliasPrefix)
	switch {
	case link.Type() != "veth":
		return f, false
	case attrs.Group == Group && marked:
		f.State, f.WorkloadID = Marked, id
	case attrs.Group == Group && attrs.Alias == "" && named(link):
		f.State = Remnant
	case attrs.Group == doomed && marked:
		f.State = Doomed
	default:
		return f, false
	}
	return f, true
}

// Reap deletes the doomed links, all at once: the kernel takes as long for many
// as for one, and holds up every other change of the network meanwhile.
func (n Network) Reap() error {
	return n.withHandle(StepDelete, func(h *netlink.Handle) error {
		links, err := dump(h.LinkList)
		if err != nil {
			return err
		}
		var ours []netlink.Link
		alone := true // in the group
		for _, link := range links {
			if link.Attrs().Group != doomed {
				continue
			}
			if _, ok := classify(link); ok {
				ours = append(ours, link)
			} else {
				alone = false
			}
		}
		if len(ours) > 1 && alone {
			return deleteGroup(doomed)
		}
		var errs []error
		for _, link := range ours {
			errs = append(errs, ignoreGone(h.LinkDel(link)))
		}
		return errors.Join(errs...)
	})
}

// deleteGroup deletes every link of a group; rtnl_group_dellink in the kernel's
// net/core/rtnetlink.c.
func deleteGroup(group uint32) error {
	req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(group)))
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return ignoreGone(err)
}

// Routes returns, by the index of the node's end, the addresses that the node's
// routes lead to: those of the workloads, whoever remembers them.
func (n Network) Routes() (addrs map[int][]netip.Addr, err error) {
	addrs = map[int][]netip.Addr{}
	err = n.withHandle(StepList, func(h *netlink.Handle) error {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			routes, err := dump(func() ([]netlink.Route, error) { return h.RouteList(nil, family) })
			if err != nil {
				return err
			}
			for _, r := range routes {
				if r.Dst == nil {
					continue
				}
				addr, _ := netip.AddrFromSlice(r.Dst.IP)
				if ones, bits := r.Dst.Mask.Size(); ones == bits && addr.IsValid() && !addr.IsLinkLocalUnicast() {
					addrs[r.LinkIndex] = append(addrs[r.LinkIndex], addr.Unmap())
				}
			}
		}
		return nil
	})
	return addrs, err
}

// NodeAddresses returns the node's own addresses.
func (n Network) NodeAddresses() (addrs []netip.Addr, err error) {
	err = n.withHandle(StepList, func(h *netlink.Handle) error {
		all, err := dump(func() ([]netlink.Addr, error) { return h.AddrList(nil, unix.AF_UNSPEC) })
		for _, a := range all {
			if addr, ok := netip.AddrFromSlice(a.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
		return err
	})
	return addrs, err
}

// Restore brings the node's end of an attachment back to what it was when it was
// made: its settings, addresses and routes, and up. What can be is restored even
// if something cannot.
func (n Network) Restore(index int, addrs []netip.Addr) error {
	return n.withHandle(StepRestore, func(h *netlink.Handle) error {
		link, err := h.LinkByIndex(index)
		if err != nil {
			return err
		}
		c := &Creation{spec: Spec{Addresses: addrs}, host: h, hostLink: &netlink.Veth{LinkAttrs: *link.Attrs()}}
		errs := []error{
			c.stopAddressGeneration(), c.ignoreAdvertisements(),
			c.gateway(GatewayV4), c.gateway(GatewayV6), h.LinkSetUp(link),
		}
		for _, a := range addrs {
			errs = append(errs, h.RouteReplace(hostRoute(a, index)))
		}
		return errors.Join(errs...)
	})
}
