// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotNetNS: the path names something else than a network namespace.
	ErrNotNetNS = errors.New("not a network namespace")
	// ErrOwnNetNS: the path names the node's own network namespace.
	ErrOwnNetNS = errors.New("the node's own network namespace")
)

// NetNS is an open network namespace: it lives at least until Close.
type NetNS struct {
	file *os.File
	// Inode is the namespace's inode number, unique among those that live.
	Inode uint64
}

// OpenNetNS opens the namespace that path names. The error wraps fs.ErrNotExist,
// ErrNotNetNS or ErrOwnNetNS where that is the reason.
func OpenNetNS(path string) (*NetNS, error) {
	// O_NONBLOCK: opening a FIFO must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ns := &NetNS{file: f}
	if err := ns.check(); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ns, nil
}

func (ns *NetNS) check() error {
	// ioctl_ns(2): any other file answers ENOTTY.
	kind, err := unix.IoctlRetInt(int(ns.file.Fd()), unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		return ErrNotNetNS
	}
	var this, own unix.Stat_t
	if err := unix.Fstat(int(ns.file.Fd()), &this); err != nil {
		return err
	}
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return err
	}
	if this.Ino == own.Ino && this.Dev == own.Dev {
		return ErrOwnNetNS
	}
	ns.Inode = this.Ino
	return nil
}

// Close lets go of the namespace.
func (ns *NetNS) Close() error { return ns.file.Close() }

// handle opens a netlink socket inside the namespace; the socket stays there
// whatever thread uses it.
func (ns *NetNS) handle() (h *netlink.Handle, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		h, err = ns.handleOnThisThread()
	}()
	<-done
	return h, err
}

// handleOnThisThread leaves the goroutine locked to its thread if the thread
// can't be brought back: the runtime then ends the thread with the goroutine,
// and nobody else runs in the wrong namespace.
func (ns *NetNS) handleOnThisThread() (*netlink.Handle, error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("setns: %w", err)
	}
	h, err := newHandle()
	if restoreErr := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); restoreErr != nil {
		return h, err
	}
	runtime.UnlockOSThread()
	return h, err
}
