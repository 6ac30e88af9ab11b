// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerTimeout bounds the wait for one answer of the kernel, which comes at
	// once unless something is badly wrong.
	answerTimeout = 5 * time.Second

	// answerSize is twice the largest datagram that a dump comes in
	// (netlink_dump, net/netlink/af_netlink.c).
	answerSize = 64 << 10

	// dumpAttempts bounds how often a dump that changes interrupted is repeated.
	dumpAttempts = 5
)

// errInterrupted means that what a dump lists changed while it was listed, so
// that it may lack entries.
var errInterrupted = errors.New("the dump was interrupted by changes")

// conn asks the kernel and waits for its answer. It is not safe for concurrent
// use. What it hands out is valid until the next call.
type conn struct {
	fd  int
	seq uint32
	req request
	buf []byte
}

func dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	c := &conn{fd: fd, buf: make([]byte, answerSize)}
	if err := c.setup(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *conn) setup() error {
	if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		return fmt.Errorf("set NETLINK_GET_STRICT_CHK (Linux 4.20 or later has it): %w", err)
	}
	timeout := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("set the netlink socket's timeout: %w", err)
	}
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind a netlink socket: %w", err)
	}
	return nil
}

func (c *conn) close() error { return unix.Close(c.fd) }

// do sends a request and calls visit for each message of the answer. The error
// is the kernel's errno, errInterrupted after a whole dump, or visit's.
func (c *conn) do(r request, visit func(message) error) error {
	c.seq++
	r.finish(c.seq)
	c.req = r // keep what it has grown to
	if err := c.send(); err != nil {
		return err
	}
	dump := isDump(r)
	var failed, interrupted error
	for {
		answer, err := c.receive()
		if err != nil {
			return err
		}
		for len(answer) > 0 {
			var m message
			if m, answer, err = nextMessage(answer); err != nil {
				return err
			}
			if m.seq != c.seq {
				continue // the rest of an answer that was given up
			}
			if m.flags&unix.NLM_F_DUMP_INTR != 0 {
				interrupted = errInterrupted
			}
			if m.kind == unix.NLMSG_ERROR || m.kind == unix.NLMSG_DONE {
				return errors.Join(failed, m.result(), interrupted)
			}
			if failed == nil {
				failed = visit(m)
			}
			if !dump {
				return failed
			}
		}
	}
}

func isDump(r request) bool {
	m, _, err := nextMessage(r)
	return err == nil && m.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
}

func (c *conn) send() error {
	for {
		_, err := unix.Write(c.fd, c.req)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("send a netlink request: %w", err)
		}
	}
}

func (c *conn) receive() ([]byte, error) {
	for {
		n, err := unix.Read(c.fd, c.buf)
		switch {
		case err == nil:
			return c.buf[:n], nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("no answer to a netlink request within %v", answerTimeout)
		default:
			return nil, fmt.Errorf("receive a netlink answer: %w", err)
		}
	}
}

// links lists the links of a namespace, of our own for noNSID.
func (c *conn) links(nsid int32) (links []link, err error) {
	err = untilWhole(func() error {
		links = links[:0]
		return c.do(linksRequest(c.req, nsid), func(m message) error {
			l, err := parseLink(m.body)
			if err == nil {
				links = append(links, l)
			}
			return err
		})
	})
	return links, err
}

// link asks for one link of a namespace; unix.ENODEV means that it is gone,
// unix.EINVAL that the namespace is.
func (c *conn) link(nsid, index int32) (l link, err error) {
	err = c.do(linkRequest(c.req, nsid, index), func(m message) error {
		l, err = parseLink(m.body)
		return err
	})
	return l, err
}

// addresses lists the addresses of another namespace.
func (c *conn) addresses(nsid int32) (addrs []address, err error) {
	err = untilWhole(func() error {
		addrs = addrs[:0]
		return c.do(addressesRequest(c.req, nsid), func(m message) error {
			a, err := parseAddress(m.body)
			if err == nil {
				addrs = append(addrs, a)
			}
			return err
		})
	})
	return addrs, err
}

// nsids lists the ids of the namespaces that have one here.
func (c *conn) nsids() (ids []int32, err error) {
	err = untilWhole(func() error {
		ids = ids[:0]
		return c.do(nsidsRequest(c.req), func(m message) error {
			id, err := parseNSID(m.body)
			if err == nil {
				ids = append(ids, id)
			}
			return err
		})
	})
	return ids, err
}

// nsid returns the id of the namespace that key (netnsaFD or netnsaPID) and
// value name, noNSID if it has none here.
func (c *conn) nsid(key uint16, value int32) (id int32, err error) {
	id = noNSID
	err = c.do(nsidRequest(c.req, key, value), func(m message) error {
		id, err = parseNSID(m.body)
		return err
	})
	return id, err
}

// assignedNSID is nsid for a file, and gives its namespace an id if it has
// none, as "ip netns set NAME auto" does. It needs CAP_NET_ADMIN.
func (c *conn) assignedNSID(fd int) (int32, error) {
	id, err := c.nsid(netnsaFD, int32(fd))
	if err != nil || id != noNSID {
		return id, err
	}
	err = c.do(assignRequest(c.req, fd), func(message) error { return nil })
	if err != nil && !errors.Is(err, unix.EEXIST) { // someone else was quicker
		return noNSID, err
	}
	return c.nsid(netnsaFD, int32(fd))
}

// stats calls visit for every link of our namespace with its counters. It may
// call it twice for a link.
func (c *conn) stats(visit func(index int32, counters counters)) error {
	for range dumpAttempts {
		err := c.do(statsRequest(c.req), func(m message) error {
			index, counters, err := parseStats(m.body)
			if err == nil {
				visit(index, counters)
			}
			return err
		})
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return nil // the caller sees what is missing
}

// untilWhole repeats a dump that was interrupted.
func untilWhole(dump func() error) (err error) {
	for range dumpAttempts {
		if err = dump(); !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return err
}
