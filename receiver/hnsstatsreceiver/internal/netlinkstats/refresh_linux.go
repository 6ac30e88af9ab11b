// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// isStale reports whether something has to be asked for again.
func (inv *inventory) isStale() bool {
	return inv.staleAll || inv.staleMounts || len(inv.staleHosts) > 0 || len(inv.staleSpaces) > 0
}

// refresh asks again for all that is stale. What it learns is right for the
// things that the inventory has if no event of before its end says otherwise.
// An error leaves everything stale; that of one namespace is kept with it.
func (inv *inventory) refresh() error {
	if inv.staleAll {
		if err := inv.resync(); err != nil {
			return err
		}
	}
	if err := inv.refreshHosts(); err != nil {
		return err
	}
	// A namespace is mounted before it is connected, but perhaps after the Read
	// began.
	if inv.mounts.changed() || inv.staleMounts {
		inv.staleMounts = false
		if err := inv.place(); err != nil {
			return err
		}
	}
	first, err := inv.conn.nsid(netnsaPID, 1)
	if err != nil {
		return fmt.Errorf("find the network namespace of process 1: %w", err)
	}
	inv.first = first
	for id, n := range inv.staleSpaces {
		delete(inv.staleSpaces, id)
		inv.refreshSpace(n)
	}
	return nil
}

// resync reads everything again, after events were lost. A link keeps its
// identity if all that is known of it is as it was.
func (inv *inventory) resync() error {
	now := time.Now()
	links, err := inv.conn.links(noNSID)
	inv.incomplete = errors.Is(err, errInterrupted)
	if err != nil && !inv.incomplete {
		return fmt.Errorf("list the links: %w", err)
	}
	present := make(map[int32]struct{}, len(links))
	for i := range links {
		present[links[i].index] = struct{}{}
		inv.putHost(&links[i], now, (*link).sameLink)
	}
	for index := range inv.hosts {
		if _, ok := present[index]; !ok {
			inv.dropHost(index)
		}
	}
	clear(inv.staleHosts)
	if err := inv.resyncSpaces(); err != nil {
		return err
	}
	inv.staleAll = false
	return nil
}

func (inv *inventory) resyncSpaces() error {
	ids, err := inv.conn.nsids()
	if err != nil && !errors.Is(err, errInterrupted) {
		return fmt.Errorf("list the ids of network namespaces: %w", err)
	}
	present := make(map[int32]struct{}, len(ids))
	for _, id := range ids {
		present[id] = struct{}{}
		inv.stale(inv.space(id))
	}
	before := map[*namespace]uint64{}
	for id, n := range inv.spaces {
		if _, ok := present[id]; !ok {
			inv.dropSpace(id)
			continue
		}
		before[n] = n.inode
		n.inode, n.path = 0, ""
	}
	clear(inv.mounts.known)
	inv.staleMounts = false
	if err := inv.place(); err != nil {
		return err
	}
	for n, inode := range before {
		if inode == 0 || inode == n.inode {
			continue
		}
		// The id may be another namespace's.
		n.tcpTold = tcpTotals{}
		for _, p := range slices.Collect(maps.Values(n.ports)) {
			inv.renew(p)
		}
	}
	return nil
}

// refreshHosts asks for single links of our own namespace.
func (inv *inventory) refreshHosts() error {
	for index := range inv.staleHosts {
		l, err := inv.conn.link(noNSID, index)
		switch {
		case err == nil:
			inv.putHost(&l, time.Now(), (*link).sameEnd)
		case errors.Is(err, unix.ENODEV):
			inv.dropHost(index)
		default:
			return fmt.Errorf("look at link %d: %w", index, err)
		}
		delete(inv.staleHosts, index)
	}
	return nil
}

// place finds the inodes of the namespaces that are mounted. One that has no
// id gets one, or its links could not be read.
func (inv *inventory) place() error {
	return inv.mounts.each(func(mount nsMount, fd int) {
		id, err := inv.conn.assignedNSID(fd)
		if err != nil {
			return // it died; or no id is to be had, and the next change of a mount asks again
		}
		n := inv.space(id)
		if n.inode != 0 && n.inode != mount.inode {
			inv.staleMounts = true // the id is another namespace's, as an event will say
			return
		}
		n.inode, n.path = mount.inode, mount.path
		inv.mounts.known[mount.inode] = struct{}{}
		inv.stale(n)
	})
}

// displaced is to be told of a namespace that could not be opened where it is
// mounted. It may be mounted at another place, too, which the next refresh finds;
// until then it stays where it is, as the failure may pass.
func (inv *inventory) displaced(n *namespace) {
	inv.mounts.forget(n.inode)
	inv.staleMounts = true
}

// refreshSpace asks a namespace for its links and addresses, and tells its
// ports.
func (inv *inventory) refreshSpace(n *namespace) {
	n.err, n.dying = nil, false
	if inv.isOurs(n) {
		return
	}
	links, addrs, err := look(inv.conn, n.id)
	if err != nil {
		if n.dying = errors.Is(err, unix.EINVAL); !n.dying {
			n.err = fmt.Errorf("look into network namespace %s: %w", n, explain(err))
		}
		for _, p := range n.ports {
			p.endpoint = nil
		}
		return
	}
	now := time.Now()
	present := make(map[int32]*link, len(links))
	for i := range links {
		l := &links[i]
		present[l.index] = l
		if inv.isEndpoint(l) {
			inv.putInside(n, l, now)
		}
	}
	for index, p := range n.ports {
		l := present[index]
		switch {
		case l == nil && p.inside, l != nil && p.inside && !inv.isEndpoint(l):
			inv.drop(p)
		case l == nil:
			// The other end may have gone to a third namespace.
			p.endpoint = nil
			inv.staleHosts[p.link.index] = struct{}{}
		default:
			p.endpoint = &endpoint.Endpoint{
				ID:        p.id,
				Interface: l.name,
				Addresses: addressesOf(index, addrs),
				NetNS:     n.inode,
				Created:   p.created,
			}
		}
	}
}

// isOurs reports whether a namespace is the node's and no pod's: our own, or
// that of process 1, which the node is connected to if it is a network namespace
// itself and no more. If it has its own processes, too, or we have, process 1 is
// one of them, and nothing tells the machine's namespace.
func (inv *inventory) isOurs(n *namespace) bool { return n.id == inv.self || n.id == inv.first }

// look lists the links and addresses of another namespace; unix.EINVAL means
// that it is gone.
func look(c *conn, nsid int32) ([]link, []address, error) {
	links, err := c.links(nsid)
	if err != nil {
		return nil, nil, fmt.Errorf("list its links: %w", err)
	}
	addrs, err := c.addresses(nsid)
	if err != nil {
		return nil, nil, fmt.Errorf("list its addresses: %w", err)
	}
	return links, addrs, nil
}

// isEndpoint reports whether a link in another namespace connects it without a
// host end: a device of its own that was moved there, or a link that lives on
// one of ours. Everything else in a pod is its own affair, or is counted at
// the host end.
func (inv *inventory) isEndpoint(l *link) bool {
	switch l.kind {
	case noKind:
		return l.hardware == unix.ARPHRD_ETHER || l.hardware == unix.ARPHRD_INFINIBAND
	case stackedKind:
		return l.lowerNSID == inv.self
	}
	return false
}

func (inv *inventory) putInside(n *namespace, l *link, now time.Time) {
	if p := n.ports[l.index]; p != nil && p.inside && p.link.kind == l.kind && p.link.address == l.address {
		p.link = *l
		return
	}
	inv.add(n, &port{link: *l, inside: true, index: l.index}, now)
}
