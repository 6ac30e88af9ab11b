// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"fmt"
	"strconv"
	"time"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// port is one endpoint and where its counters come from: the host's end of a
// veth, or a link in the pod's own namespace that has no host end.
type port struct {
	link link // the one that counts
	// inside is set for a link in the pod's namespace: it counts as the pod
	// does, a host's end the other way round.
	inside bool
	space  *namespace
	index  int32 // the interface's in the pod's namespace

	id      string
	created time.Time
	// endpoint is nil until the pod's side is known.
	endpoint *endpoint.Endpoint
	// gone is set when the port is in the inventory no longer.
	gone bool

	born     uint64 // the Read in which it was found
	read     uint64 // the Read that counters is of
	counters counters
	err      error // of that Read
}

// name is what an operator finds the port by.
func (p *port) name() string {
	if !p.inside {
		return p.link.name
	}
	return fmt.Sprintf("%s in network namespace %s", p.link.name, p.space)
}

// namespace is another network namespace that ours has an id for.
type namespace struct {
	id    int32
	inode uint64          // 0 if unknown
	path  string          // where it is mounted, "" if unknown
	ports map[int32]*port // by the interface's index in it
	err   error           // why its side of the ports is not known
	// dying is set when the kernel has the id no longer. It announces that
	// somewhat later.
	dying bool

	tcp        tcpTotals
	tcpRead    uint64 // the Read that tcp is of, 0 if none
	tcpErr     error  // of the last try
	tcpFailing bool   // and it has been said

	// tcpPort carries the totals, less tcpBase, which other ports had told before
	// it. tcpTold is what was told last.
	tcpPort          *port
	tcpBase, tcpTold tcpTotals
}

func (n *namespace) String() string {
	if n.path != "" {
		return n.path
	}
	return "nsid " + strconv.Itoa(int(n.id))
}

// firstPort is the one with the lowest index.
func (n *namespace) firstPort() *port {
	var first *port
	for _, p := range n.ports {
		if first == nil || p.index < first.index {
			first = p
		}
	}
	return first
}

// inventory is the set of ports, kept by replaying events and by asking again
// for what they say has changed. It is one goroutine's.
type inventory struct {
	conn  *conn
	epoch uint64 // the number of the current Read
	ids   uint64 // the last port's id

	hosts   map[int32]*port      // host ends, by index
	insides map[*port]struct{}   // the others
	spaces  map[int32]*namespace // by id

	// To be asked for again, at the next refresh.
	staleSpaces map[int32]*namespace
	staleHosts  map[int32]struct{}
	staleMounts bool
	staleAll    bool
	// incomplete is set when a list of everything may lack something: it is
	// stale again at the next Read.
	incomplete bool

	self   int32 // our namespace's own id
	first  int32 // the id of process 1's namespace, noNSID if that is ours
	mounts mounts
}

// newInventory returns an inventory that has everything to ask for. self is our
// own namespace's id.
func newInventory(c *conn, m mounts, self int32) *inventory {
	return &inventory{
		conn:        c,
		mounts:      m,
		staleAll:    true,
		hosts:       map[int32]*port{},
		insides:     map[*port]struct{}{},
		spaces:      map[int32]*namespace{},
		staleSpaces: map[int32]*namespace{},
		staleHosts:  map[int32]struct{}{},
		self:        self,
		first:       noNSID,
	}
}

// apply replays events in their order. Events from before the last resync do
// no harm: each one either repeats what is known or has the thing it speaks of
// asked for again.
func (inv *inventory) apply(events []event) {
	for i := range events {
		e := &events[i]
		switch e.kind {
		case linkChanged:
			inv.putHost(&e.link, e.at, (*link).sameEnd)
		case linkGone:
			inv.dropHost(e.link.index)
			if e.link.moved {
				// The other end, if it is ours, is a pod's from now on, which the
				// kernel does not announce.
				inv.staleHosts[e.link.lower] = struct{}{}
			}
		case namespaceAppeared, namespaceChanged:
			inv.stale(inv.space(e.nsid))
		case namespaceGone:
			inv.dropSpace(e.nsid)
		}
	}
}

func (inv *inventory) stale(n *namespace) { inv.staleSpaces[n.id] = n }

// space returns the namespace with an id, which it may be the first to know.
func (inv *inventory) space(id int32) *namespace {
	n := inv.spaces[id]
	if n == nil {
		n = &namespace{id: id, ports: map[int32]*port{}}
		inv.spaces[id] = n
		inv.stale(n)
	}
	return n
}

// dropSpace forgets a namespace that is gone; its id may be another one's soon.
func (inv *inventory) dropSpace(id int32) {
	n := inv.spaces[id]
	if n == nil {
		return
	}
	for _, p := range n.ports {
		inv.drop(p)
		if !p.inside {
			inv.staleHosts[p.link.index] = struct{}{}
		}
	}
	delete(inv.spaces, id)
	delete(inv.staleSpaces, id)
	inv.mounts.forget(n.inode)
}

// sameEnd reports whether m is l after a change, when no event was missed.
func (l *link) sameEnd(m *link) bool {
	return l.kind == m.kind && l.lower == m.lower && l.lowerNSID == m.lowerNSID
}

// sameLink reports whether m is l after events were missed: the index alone
// could have been given to another link.
func (l *link) sameLink(m *link) bool {
	return l.sameEnd(m) && l.name == m.name && l.address == m.address
}

// putHost takes in a link of our own namespace as it is now.
func (inv *inventory) putHost(l *link, at time.Time, same func(*link, *link) bool) {
	p := inv.hosts[l.index]
	if p != nil && same(&p.link, l) {
		p.link = *l
		return
	}
	inv.dropHost(l.index)
	if l.kind != vethKind || l.lowerNSID == noNSID {
		return // not a pod's: another kind, or a veth with both ends here
	}
	n := inv.space(l.lowerNSID)
	inv.hosts[l.index] = inv.add(n, &port{link: *l, index: l.lower}, at)
	inv.stale(n)
}

func (inv *inventory) dropHost(index int32) {
	if p := inv.hosts[index]; p != nil {
		inv.drop(p)
	}
}

// add gives a port its identity. It knows since when the link counts only if it
// has counted nothing yet: a link that was moved has kept its counters.
func (inv *inventory) add(n *namespace, p *port, at time.Time) *port {
	inv.ids++
	p.id = strconv.FormatUint(inv.ids, 10)
	if p.link.hasCounters && p.link.counters == (counters{}) {
		p.created = at
	}
	p.space, p.born = n, inv.epoch
	if old := n.ports[p.index]; old != nil {
		inv.drop(old)
	}
	n.ports[p.index] = p
	if p.inside {
		inv.insides[p] = struct{}{}
	}
	return p
}

func (inv *inventory) drop(p *port) {
	p.gone = true
	delete(inv.insides, p)
	if !p.inside && inv.hosts[p.link.index] == p {
		delete(inv.hosts, p.link.index)
	}
	if p.space.ports[p.index] == p {
		delete(p.space.ports, p.index)
	}
}

// renew replaces a port by one of the same link with another identity.
func (inv *inventory) renew(p *port) {
	inv.drop(p)
	fresh := inv.add(p.space, &port{link: p.link, inside: p.inside, index: p.index}, time.Time{})
	if !p.inside {
		inv.hosts[p.link.index] = fresh
	}
	inv.stale(p.space)
}
