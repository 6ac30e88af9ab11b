// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errMalformed is what every parser returns for bytes that are no netlink
// message of the kind expected.
var errMalformed = errors.New("malformed netlink message")

// message is one netlink message (struct nlmsghdr and what follows it).
type message struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// nextMessage splits the first message off a datagram.
func nextMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return message{}, nil, fmt.Errorf("%w: %d bytes for a header", errMalformed, len(b))
	}
	length := int(binary.NativeEndian.Uint32(b))
	if length < unix.SizeofNlMsghdr || length > len(b) {
		return message{}, nil, fmt.Errorf("%w: length %d of %d bytes", errMalformed, length, len(b))
	}
	m = message{
		kind:  binary.NativeEndian.Uint16(b[4:]),
		flags: binary.NativeEndian.Uint16(b[6:]),
		seq:   binary.NativeEndian.Uint32(b[8:]),
		body:  b[unix.SizeofNlMsghdr:length],
	}
	return m, b[min(len(b), align(length)):], nil
}

// result is the kernel's verdict in an NLMSG_ERROR or NLMSG_DONE message: nil,
// or the errno. A dump's errors come in NLMSG_DONE.
func (m message) result() error {
	if len(m.body) < 4 {
		if m.kind == unix.NLMSG_DONE { // an old kernel's, without a status
			return nil
		}
		return fmt.Errorf("%w: an error of %d bytes", errMalformed, len(m.body))
	}
	if code := int32(binary.NativeEndian.Uint32(m.body)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}

// attribute is one netlink attribute (struct nlattr).
type attribute struct {
	kind  uint16
	value []byte
}

// nextAttribute splits the first attribute off a message's body or off the
// value of a nested attribute.
func nextAttribute(b []byte) (a attribute, rest []byte, err error) {
	if len(b) < unix.SizeofNlAttr {
		return attribute{}, nil, fmt.Errorf("%w: %d bytes for an attribute", errMalformed, len(b))
	}
	length := int(binary.NativeEndian.Uint16(b))
	if length < unix.SizeofNlAttr || length > len(b) {
		return attribute{}, nil, fmt.Errorf("%w: attribute length %d of %d bytes", errMalformed, length, len(b))
	}
	a = attribute{
		kind:  binary.NativeEndian.Uint16(b[2:]) & attrTypeMask,
		value: b[unix.SizeofNlAttr:length],
	}
	return a, b[min(len(b), align(length)):], nil
}

func (a attribute) int32() (int32, error) {
	if len(a.value) != 4 {
		return 0, fmt.Errorf("%w: attribute %d of %d bytes for 4", errMalformed, a.kind, len(a.value))
	}
	return int32(binary.NativeEndian.Uint32(a.value)), nil
}

// text is the value of a string attribute, with or without its terminator.
func (a attribute) text() []byte {
	for i, c := range a.value {
		if c == 0 {
			return a.value[:i]
		}
	}
	return a.value
}

func align(n int) int { return (n + 3) &^ 3 } // NLMSG_ALIGNTO and NLA_ALIGNTO, linux/netlink.h

// request is a netlink message under construction: the header, the family's
// fixed part, then attributes.
type request []byte

func newRequest(buf []byte, kind, flags uint16) request {
	b := append(buf[:0], make([]byte, unix.SizeofNlMsghdr)...)
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	return b
}

func (r request) fixed(part ...byte) request { return append(r, part...) }

func (r request) uint32(v uint32) request {
	return binary.NativeEndian.AppendUint32(r, v)
}

func (r request) attrInt32(kind uint16, v int32) request {
	r = binary.NativeEndian.AppendUint16(r, unix.SizeofNlAttr+4)
	r = binary.NativeEndian.AppendUint16(r, kind)
	return binary.NativeEndian.AppendUint32(r, uint32(v))
}

// finish writes what is known only at the end.
func (r request) finish(seq uint32) {
	binary.NativeEndian.PutUint32(r, uint32(len(r)))
	binary.NativeEndian.PutUint32(r[8:], seq)
}
