// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// address is one address of an interface, as RTM_NEWADDR tells of it.
type address struct {
	index int32
	addr  netip.Addr
	// failed is set when another host has the address (duplicate address
	// detection): the kernel keeps it and does not use it.
	failed bool
}

func parseAddress(b []byte) (address, error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return address{}, fmt.Errorf("%w: an address of %d bytes", errMalformed, len(b))
	}
	a := address{
		index:  int32(binary.NativeEndian.Uint32(b[4:])),
		failed: b[2]&unix.IFA_F_DADFAILED != 0,
	}
	// IFA_LOCAL is ours. IFA_ADDRESS is too, unless the link is point-to-point:
	// then it is the other end's (linux/if_addr.h).
	var local, plain []byte
	for rest := b[unix.SizeofIfAddrmsg:]; len(rest) > 0; {
		var at attribute
		var err error
		if at, rest, err = nextAttribute(rest); err != nil {
			return address{}, err
		}
		switch at.kind {
		case unix.IFA_LOCAL:
			local = at.value
		case unix.IFA_ADDRESS:
			plain = at.value
		}
	}
	if local == nil {
		local = plain
	}
	addr, ok := netip.AddrFromSlice(local)
	if !ok {
		return address{}, fmt.Errorf("%w: an address of %d bytes on link %d", errMalformed, len(local), a.index)
	}
	a.addr = addr.Unmap()
	return a, nil
}

// tellsPodsApart reports whether an address is good for finding a pod: a
// loopback or link-local one is the same in every pod.
func (a address) tellsPodsApart() bool {
	return !a.failed && !a.addr.IsLoopback() && !a.addr.IsLinkLocalUnicast() &&
		!a.addr.IsMulticast() && !a.addr.IsUnspecified()
}

// addressesOf returns those of an interface's addresses that tell pods apart,
// IPv4 first, then the one that was given first. all is in the kernel's order:
// an interface's IPv4 addresses as they were added, its IPv6 addresses last
// one first (ipv6_link_dev_addr, net/ipv6/addrconf.c).
func addressesOf(index int32, all []address) []netip.Addr {
	var addrs []netip.Addr
	for _, a := range all {
		if a.index == index && a.addr.Is4() && a.tellsPodsApart() {
			addrs = append(addrs, a.addr)
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		if a := all[i]; a.index == index && !a.addr.Is4() && a.tellsPodsApart() {
			addrs = append(addrs, a.addr)
		}
	}
	return addrs
}

// addressesRequest asks for every address of another namespace. It needs
// NETLINK_GET_STRICT_CHK: without it the kernel ignores IFA_TARGET_NETNSID and
// answers with the addresses of our own.
func addressesRequest(buf []byte, nsid int32) request {
	return newRequest(buf, unix.RTM_GETADDR, unix.NLM_F_DUMP).
		fixed(make([]byte, unix.SizeofIfAddrmsg)...).
		attrInt32(unix.IFA_TARGET_NETNSID, nsid)
}
