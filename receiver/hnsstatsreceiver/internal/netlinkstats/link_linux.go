// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// linkKind is IFLA_INFO_KIND, as far as it matters here.
type linkKind uint8

const (
	otherKind linkKind = iota // a kind that no pod endpoint is of
	noKind                    // none: a device of its own, such as a network card
	vethKind
	stackedKind // lives on another link: macvlan, macvtap, ipvlan, ipvtap, vlan, netkit
)

// link is a network interface as RTM_NEWLINK and RTM_DELLINK tell of it.
type link struct {
	family   uint8 // AF_UNSPEC, or whose view of the link this is
	hardware uint16
	index    int32
	name     string
	kind     linkKind
	address  string // the hardware address, as bytes
	// lower is the link that this one lives on (IFLA_LINK): a veth's other end,
	// a macvlan's parent; 0 if none. lowerNSID is the namespace it is in, as the
	// asker's namespace numbers it; noNSID if it is in this link's own.
	lower, lowerNSID int32
	// moved is set when RTM_DELLINK means that the link went to another namespace.
	moved       bool
	counters    counters
	hasCounters bool
}

func parseLink(b []byte) (link, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return link{}, fmt.Errorf("%w: a link of %d bytes", errMalformed, len(b))
	}
	l := link{
		family:    b[0],
		hardware:  binary.NativeEndian.Uint16(b[2:]),
		index:     int32(binary.NativeEndian.Uint32(b[4:])),
		kind:      noKind,
		lowerNSID: noNSID,
	}
	for rest := b[unix.SizeofIfInfomsg:]; len(rest) > 0; {
		var a attribute
		var err error
		if a, rest, err = nextAttribute(rest); err != nil {
			return link{}, err
		}
		if err := l.set(a); err != nil {
			return link{}, err
		}
	}
	return l, nil
}

func (l *link) set(a attribute) (err error) {
	switch a.kind {
	case unix.IFLA_IFNAME:
		l.name = string(a.text())
	case unix.IFLA_ADDRESS:
		l.address = string(a.value)
	case unix.IFLA_LINK:
		l.lower, err = a.int32()
	case unix.IFLA_LINK_NETNSID:
		l.lowerNSID, err = a.int32()
	case unix.IFLA_NEW_NETNSID:
		l.moved = true
	case unix.IFLA_LINKINFO:
		l.kind, err = parseKind(a.value)
	case unix.IFLA_STATS64:
		l.counters, err = parseCounters(a.value)
		l.hasCounters = err == nil
	}
	return err
}

func parseKind(b []byte) (linkKind, error) {
	for len(b) > 0 {
		a, rest, err := nextAttribute(b)
		if err != nil {
			return otherKind, err
		}
		if a.kind == unix.IFLA_INFO_KIND {
			switch string(a.text()) {
			case "veth":
				return vethKind, nil
			case "macvlan", "macvtap", "ipvlan", "ipvtap", "vlan", "netkit":
				return stackedKind, nil
			}
			return otherKind, nil
		}
		b = rest
	}
	return noKind, nil
}

// linksRequest asks for every link of a namespace, of our own for noNSID.
func linksRequest(buf []byte, nsid int32) request {
	r := newRequest(buf, unix.RTM_GETLINK, unix.NLM_F_DUMP).fixed(make([]byte, unix.SizeofIfInfomsg)...)
	return linkAttributes(r, nsid)
}

// linkRequest asks for one link of a namespace.
func linkRequest(buf []byte, nsid, index int32) request {
	r := newRequest(buf, unix.RTM_GETLINK, 0)
	r = r.fixed(0, 0, 0, 0).uint32(uint32(index)).fixed(0, 0, 0, 0, 0, 0, 0, 0)
	return linkAttributes(r, nsid)
}

func linkAttributes(r request, nsid int32) request {
	if nsid != noNSID {
		r = r.attrInt32(unix.IFLA_TARGET_NETNSID, nsid)
	}
	// Without the address families' own counters, which double the answer.
	return r.attrInt32(unix.IFLA_EXT_MASK, rtextFilterSkipStats)
}
