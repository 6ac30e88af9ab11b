// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Watch is a subscription to the deletion of links.
type Watch struct {
	done    chan struct{}
	updates chan netlink.LinkUpdate
}

// NewWatch subscribes to the links of the namespace it is called in.
func NewWatch() (*Watch, error) {
	w := &Watch{done: make(chan struct{}), updates: make(chan netlink.LinkUpdate, 256)}
	err := netlink.LinkSubscribeWithOptions(w.updates, w.done, netlink.LinkSubscribeOptions{
		ReceiveBufferSize: 1 << 20, // some thousand messages, while the reader waits for a processor
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Next returns the index of the next link that is deleted. It returns false when
// the watch has ended: closed, or because the kernel dropped messages, and with
// them, deletions.
func (w *Watch) Next() (index int, ok bool) {
	for update := range w.updates {
		// A bridge that a link leaves sends one of its own, of family AF_BRIDGE
		// (del_nbp in net/bridge/br_if.c): the link lives on.
		if update.Header.Type == unix.RTM_DELLINK && update.IfInfomsg.Family == unix.AF_UNSPEC {
			return int(update.Index), true
		}
	}
	return 0, false
}

// Close ends the watch; Next then returns false.
func (w *Watch) Close() {
	close(w.done)
}

// Drain waits until the watch has ended, after Close.
func (w *Watch) Drain() {
	for ok := true; ok; _, ok = w.Next() {
	}
}
