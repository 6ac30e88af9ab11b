// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"context"
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

	fences  chan uint32 // the last fence that has come back, lostFence after a loss
	request request
	seq     uint32
	timer   *time.Timer
	done    chan struct{} // closed when the goroutine has ended

	mu  sync.Mutex
	log eventLog
}

// lostFence is no fence's number.
const lostFence = 0

// listen starts a monitor. size is the socket's buffer in bytes.
func listen(size int) (*monitor, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open the socket for notifications: %w", err)
	}
	m := &monitor{
		file:   os.NewFile(uintptr(fd), "netlink notifications"),
		fd:     fd,
		fences: make(chan uint32, 1),
		timer:  time.NewTimer(answerTimeout),
		done:   make(chan struct{}),
		log:    eventLog{changed: map[int32]struct{}{}},
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
	m.timer.Stop()
	return err
}

// take moves the events logged so far to spare.
func (m *monitor) take(spare []event) (events []event, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.take(spare)
}

// fence returns when everything that the kernel announced before the call is
// in the log, or the log knows that something is missing. It has the kernel
// answer a request that does nothing on the socket of the notifications, where
// the answer queues behind them.
func (m *monitor) fence(ctx context.Context) error {
	m.seq++
	if m.seq == lostFence {
		m.seq++
	}
	m.request = newRequest(m.request, unix.NLMSG_NOOP, unix.NLM_F_ACK)
	m.request.finish(m.seq)
	select {
	case <-m.fences: // left over from a call that did not wait for it, or from a loss already logged
	default:
	}
	// A full socket cannot take the answer. Then the reader finds the overrun,
	// and lets the fence go.
	if _, err := unix.Write(m.fd, m.request); err != nil {
		return fmt.Errorf("ask for the end of the notifications: %w", err)
	}
	m.timer.Reset(answerTimeout)
	for {
		select {
		case seq := <-m.fences:
			if seq == m.seq || seq == lostFence {
				return nil
			}
		case <-m.timer.C:
			return fmt.Errorf("the notifications did not end within %v", answerTimeout)
		case <-m.done:
			return errors.New("the socket for notifications is closed")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run empties the socket until it is closed.
func (m *monitor) run(raw syscall.RawConn) {
	defer close(m.done)
	r := reader{monitor: m, buf: make([]byte, answerSize), oob: make([]byte, unix.CmsgSpace(4))}
	// The callback never says that it is done, so that Read returns only when
	// the file is closed.
	_ = raw.Read(func(fd uintptr) bool {
		r.drain(int(fd))
		return false
	})
}

// reader is the goroutine's own.
type reader struct {
	*monitor
	buf, oob []byte
	overrun  bool
}

// drain logs everything that the socket holds.
func (r *reader) drain(fd int) {
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, r.buf, r.oob, 0)
		switch {
		case err == nil && flags&unix.MSG_TRUNC == 0:
			r.logAll(r.buf[:n], sender(r.oob[:oobn]), time.Now())
		case errors.Is(err, unix.EAGAIN):
			// Only an emptied socket takes notifications again after an overrun
			// (netlink_rcv_wake, net/netlink/af_netlink.c): what is read from now
			// on misses nothing.
			if r.overrun {
				r.overrun = false
				r.lose()
			}
			return
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS), err == nil: // an overrun, a datagram larger than any known
			r.overrun = true
		default:
			r.lose()
			return
		}
	}
}

// lose marks the log and lets a waiting fence go. Under the lock, so that a
// fence that starts after the mark was taken does not find this one.
func (r *reader) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.lose()
	r.passFence(lostFence)
}

// logAll logs the messages of one datagram.
func (r *reader) logAll(b []byte, nsid int32, now time.Time) {
	for len(b) > 0 {
		m, rest, err := nextMessage(b)
		if err != nil {
			r.overrun = true
			return
		}
		b = rest
		if m.kind == unix.NLMSG_ERROR {
			r.passFence(m.seq)
			continue
		}
		e, err := parseEvent(m, nsid)
		if err != nil {
			r.overrun = true
			continue
		}
		e.at = now
		r.mu.Lock()
		r.log.add(e)
		r.mu.Unlock()
	}
}

// passFence tells fence how far the log has come, in place of what it was told
// before.
func (m *monitor) passFence(seq uint32) {
	for {
		select {
		case m.fences <- seq:
			return
		default:
		}
		select {
		case <-m.fences:
		default:
		}
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
