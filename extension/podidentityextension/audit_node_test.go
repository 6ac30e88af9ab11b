// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// The audit's node: what truly happens to its pods, known to the test alone.

// auditPod is a pod of the truth; each of its sandboxes is a tenancy.
type auditPod struct {
	uid, name   string
	hostNetwork bool
	lives       []*tenancy
}

// is says whether a name that was written on data is this pod's. A source need
// not know the UID; the name must be right, and the UID, if it was written.
func (p *auditPod) is(id written) bool { return p.name == id.name && (id.uid == "" || p.uid == id.uid) }

const never = int64(math.MaxInt64)

// A tenancy is one sandbox of a pod, and the keys that it has in [begin, end).
type tenancy struct {
	pod        *auditPod
	sandbox    string
	netns      uint64
	hns        []string
	addrs      []netip.Addr
	begin, end int64
	stated     [numAuditSources]bool // whether the source says when it began, or only that it is there

	heard bool  // a source has told whose the sandbox is
	died  int64 // when it ended, as the first-hand source told the earliest; never while it has not
}

func (l *tenancy) record(source auditSource) podidentity.Record {
	r := podidentity.Record{
		Owner: l.sandbox, Sandbox: l.sandbox, NetNS: l.netns, HNSEndpoints: l.hns, Addresses: l.addrs,
		HostNetwork: l.pod.hostNetwork,
		Identity:    podidentity.Identity{Name: l.pod.name, Namespace: "shop", UID: l.pod.uid},
	}
	switch source {
	case auditK8s: // the API server knows pods, not sandboxes
		r.Owner, r.Sandbox, r.NetNS, r.HNSEndpoints = l.pod.uid, "", 0, nil
	case auditFile: // a CNI plugin's file knows no UIDs
		r.Identity.UID, r.NetNS = "", 0
	}
	if l.stated[source] {
		r.Begin = time.Unix(0, l.begin)
	}
	return r
}

// Keys that no second pod is ever given.
type (
	podUID    string
	sandboxID string
)

func unique(key any) bool {
	_, isUID := key.(podUID)
	_, isSandbox := key.(sandboxID)
	return isUID || isSandbox
}

// keys returns the keys that a source tells of.
func (l *tenancy) keys(source auditSource) (keys []any) {
	all := []any{podUID(l.pod.uid), sandboxID(l.sandbox)}
	if !l.pod.hostNetwork {
		all = append(all, l.netns)
		for _, a := range l.addrs {
			all = append(all, a)
		}
	}
	return slices.DeleteFunc(all, func(key any) bool { return !source.tells(key) })
}

// auditNode makes pods come and go.
type auditNode struct {
	rnd     *rand.Rand
	now     int64
	live    []*tenancy
	recent  []*tenancy // that can still be asked for, the newest last
	serial  int
	freed   []netip.Addr // the latest last
	inodes  map[uint64]bool
	history map[netip.Addr][]*tenancy
	tell    func(l *tenancy, what happening)
}

// happening is what the sources are told of.
type happening string

const (
	began     happening = "began"
	stopped   happening = "stopped"   // and its pod was deleted
	completed happening = "completed" // the API server lists its pod for longer
	restarted happening = "restarted" // another sandbox of its pod takes its place
)

const (
	poolSize   = 62 // addresses of a family, as of a /26
	auditReach = int64(20 * time.Second)
)

var nodeAddress = netip.MustParseAddr("192.0.2.1")

func newAuditNode(rnd *rand.Rand, start time.Time) *auditNode {
	return &auditNode{rnd: rnd, now: start.UnixNano(), inodes: map[uint64]bool{}, history: map[netip.Addr][]*tenancy{}}
}

func poolAddr(rnd *rand.Rand, v6 bool) netip.Addr {
	i := byte(1 + rnd.IntN(poolSize))
	if v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: i})
	}
	return netip.AddrFrom4([4]byte{10, 244, 0, i})
}

// holder is who truly has the address at a time, nil for nobody.
func (n *auditNode) holder(a netip.Addr, at int64) *tenancy {
	for _, l := range n.history[a] {
		if l.begin <= at && at < l.end {
			return l
		}
	}
	return nil
}

// address takes the one that was freed last, or any that is free.
func (n *auditNode) address(v6 bool) netip.Addr {
	if i := len(n.freed) - 1; i >= 0 && n.rnd.IntN(2) == 0 && n.freed[i].Is6() == v6 && n.holder(n.freed[i], n.now) == nil {
		return n.freed[i]
	}
	for {
		if a := poolAddr(n.rnd, v6); n.holder(a, n.now) == nil {
			return a
		}
	}
}

// inode is the lowest free one, as Linux allocates them (proc_alloc_inum in
// fs/proc/generic.c), among those that other namespaces' ends left free.
func (n *auditNode) inode() uint64 {
	i := uint64(4026532000)
	for n.inodes[i] || n.rnd.IntN(4) == 0 {
		i++
	}
	n.inodes[i] = true
	return i
}

func (n *auditNode) begin(p *auditPod) {
	n.serial++
	l := &tenancy{pod: p, sandbox: fmt.Sprintf("sandbox-%d", n.serial), begin: n.now, end: never, died: never}
	for s := range l.stated {
		l.stated[s] = n.rnd.IntN(2) == 0
	}
	if p.hostNetwork {
		l.netns, l.addrs = 4026531840, []netip.Addr{nodeAddress}
	} else {
		l.netns = n.inode()
		nics := 1 + n.rnd.IntN(5)/4 // one in five has two
		for range nics {
			l.hns = append(l.hns, fmt.Sprintf("%08x-820a-406a-ade6-6b0400000063", n.rnd.Uint32()))
			l.addrs = append(l.addrs, n.claim(l, false))
			if n.rnd.IntN(2) == 0 {
				l.addrs = append(l.addrs, n.claim(l, true))
			}
		}
	}
	p.lives = append(p.lives, l)
	n.live = append(n.live, l)
	n.recent = append(n.recent, l)
	n.tell(l, began)
}

func (n *auditNode) claim(l *tenancy, v6 bool) netip.Addr {
	a := n.address(v6)
	h := slices.DeleteFunc(n.history[a], func(l *tenancy) bool { return l.end < n.now-2*auditReach })
	n.history[a] = append(h, l)
	return a
}

func (n *auditNode) end(l *tenancy, why happening) {
	l.end = n.now
	n.live = slices.DeleteFunc(n.live, func(o *tenancy) bool { return o == l })
	if !l.pod.hostNetwork {
		delete(n.inodes, l.netns)
		n.freed = append(n.freed[max(0, len(n.freed)-8):], l.addrs...)
	}
	n.tell(l, why)
}

// newPod is one of a Deployment, whose names never come again, or one of a
// StatefulSet, whose names do.
func (n *auditNode) newPod() *auditPod {
	n.serial++
	p := &auditPod{uid: fmt.Sprintf("uid-%d", n.serial), name: fmt.Sprintf("web-%d", n.serial), hostNetwork: n.rnd.IntN(12) == 0}
	set := fmt.Sprintf("db-%d", n.rnd.IntN(8))
	if n.rnd.IntN(3) == 0 && !slices.ContainsFunc(n.live, func(l *tenancy) bool { return l.pod.name == set }) {
		p.name = set
	}
	return p
}

// step lets a little time pass and one thing happen.
func (n *auditNode) step() {
	n.now += int64(time.Millisecond) * (1 + n.rnd.Int64N(40))
	for len(n.recent) > 0 && n.recent[0].end < n.now-auditReach {
		n.recent = n.recent[1:]
	}
	if len(n.live) < 20 {
		n.begin(n.newPod())
		return
	}
	l := n.live[n.rnd.IntN(len(n.live))]
	n.now++
	switch n.rnd.IntN(12) {
	case 0:
		if len(n.live) < 40 {
			n.begin(n.newPod())
		}
	case 1:
		n.end(l, stopped)
	case 2: // its addresses are there for the next one at once
		n.end(l, stopped)
		n.now += n.rnd.Int64N(int64(100 * time.Millisecond))
		n.begin(n.newPod())
	case 3:
		n.end(l, restarted)
		n.now += n.rnd.Int64N(int64(100 * time.Millisecond))
		n.begin(l.pod)
	case 4:
		n.end(l, completed)
	}
}
