// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// receiveBuffer holds the notifications of some thousand changes at once.
const receiveBuffer = 4 << 20

// monitor listens to what the kernel announces of links, addresses and
// namespaces, and logs it. A goroutine of its own empties the socket at all
// times; the log is bounded.
type monitor struct {
	file *os.File
	fd   int
	// everywhere is set when the notifications of other namespaces come too.
	everywhere bool
	done       chan struct{} // closed when the goroutine has ended

	// mu is held to receive and log, which never waits, so that the log is in
	// the kernel's order whoever receives.
	mu       sync.Mutex
	log      eventLog
	buf, oob []byte
	overrun  bool // notifications were lost, and the socket is not empty yet
}

// listen starts a monitor. size is the socket's buffer in bytes.
func listen(size int) (*monitor, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open the socket for notifications: %w", err)
	}
	m := &monitor{
		file: os.NewFile(uintptr(fd), "netlink notifications"),
		fd:   fd,
		done: make(chan struct{}),
		log:  eventLog{changed: map[int32]struct{}{}},
		buf:  make([]byte, answerSize),
		oob:  make([]byte, unix.CmsgSpace(4)),
	}
	raw, err := m.file.SyscallConn()
	if err == nil {
		err = m.subscribe(size)
	}
	if err != nil {
		return nil, errors.Join(err, m.file.Close())
	}
	go m.run(raw)
	return m, nil
}

func (m *monitor) subscribe(size int) error {
	// SO_RCVBUFFORCE goes beyond net.core.rmem_max and needs CAP_NET_ADMIN.
	if unix.SetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) != nil {
		if err := unix.SetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size); err != nil {
			return fmt.Errorf("set the size of the buffer for notifications: %w", err)
		}
	}
	err := unix.SetsockoptInt(m.fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1)
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("set NETLINK_LISTEN_ALL_NSID: %w", err)
	}
	m.everywhere = err == nil
	if err := unix.Bind(m.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind the socket for notifications: %w", err)
	}
	for _, group := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_NSID} {
		if err := unix.SetsockoptInt(m.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("subscribe to netlink group %d: %w", group, err)
		}
	}
	return nil
}

// close ends the goroutine and the socket.
func (m *monitor) close() error {
	err := m.file.Close()
	<-m.done
	return err
}

// run empties the socket until it is closed.
func (m *monitor) run(raw syscall.RawConn) {
	defer close(m.done)
	// The callback never says that it is done, so that Read returns only when
	// the file is closed.
	_ = raw.Read(func(uintptr) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.drain()
		return false
	})
}

// take moves all that the kernel announced before the call to spare, unless
// lost is set: then something is missing. What the kernel announces is on the
// socket when the change that it speaks of is made.
func (m *monitor) take(spare []event) (events []event, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drain()
	return m.log.take(spare)
}

// drain logs everything that the socket holds.
func (m *monitor) drain() {
	for {
		n, oobn, flags, _, err := unix.Recvmsg(m.fd, m.buf, m.oob, 0)
		switch {
		case err == nil && flags&unix.MSG_TRUNC == 0:
			m.logAll(m.buf[:n], sender(m.oob[:oobn]), time.Now())
		case errors.Is(err, unix.EAGAIN):
			// Only an emptied socket takes notifications again after an overrun
			// (netlink_rcv_wake, net/netlink/af_netlink.c): what is read from now
			// on misses nothing.
			if m.overrun {
				m.overrun = false
				m.log.lose()
			}
			return
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS), err == nil: // an overrun, a datagram larger than any known
			m.overrun = true
		default:
			m.log.lose()
			return
		}
	}
}

// logAll logs the messages of one datagram.
func (m *monitor) logAll(b []byte, nsid int32, now time.Time) {
	for len(b) > 0 {
		msg, rest, err := nextMessage(b)
		if err != nil {
			m.overrun = true
			return
		}
		b = rest
		e, err := parseEvent(msg, nsid)
		if err != nil {
			m.overrun = true
			continue
		}
		e.at = now
		m.log.add(e)
	}
}

// sender returns the namespace that a notification comes from: noNSID for our
// own. The kernel names others in a control message of the type
// NETLINK_LISTEN_ALL_NSID (netlink_cmsg_listen_all_nsid, net/netlink/af_netlink.c).
func sender(oob []byte) int32 {
	for len(oob) >= unix.CmsgLen(0) {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return noNSID
		}
		if h.Level == unix.SOL_NETLINK && h.Type == unix.NETLINK_LISTEN_ALL_NSID && len(data) >= 4 {
			return int32(binary.NativeEndian.Uint32(data))
		}
		oob = rest
	}
	return noNSID
}
