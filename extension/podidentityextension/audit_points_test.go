// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// pointKind is what a point says of its pod.
type pointKind uint8

const (
	byNetNS    pointKind = iota // the namespace and an address, as hnsstats on Linux
	byEndpoint                  // the HNS endpoint, the sandbox and an address, as hnsstats on Windows
	byUID                       // as most SDKs in pods, and all there is of a pod on the host's network
	byAddress                   // an address alone, in any of its forms
	asPeer                      // the address of one end of a flow, which can be anybody's
	byNobody                    // an address that is no pod's: the node's, a gateway's
	byUntold                    // an endpoint of which no source has told yet, so that its address decides
	numKinds
)

func (k pointKind) String() string {
	return [numKinds]string{"namespace", "endpoint", "UID", "address", "peer", "no pod's address", "untold endpoint"}[k]
}

// verdict is what became of a point.
type verdict uint8

const (
	named          verdict = iota // rightly
	unnamed                       // with a reason that the processor counted
	unknowable                    // wrongly, by the word of every source that had told of it, see excuse
	disputed                      // wrongly, by the word of one source that another had taken back for itself
	wrong                         // wrongly, and the extension had been told better
	settledPoint                  // one of those about which all sources agreed
	settledUnnamed                // one of these without a name
	numVerdicts
)

// An auditPoint is a point with its truth.
type auditPoint struct {
	kind    pointKind
	attrs   map[string]any
	keys    []any // strongest first
	at      int64
	untimed bool
	truth   *auditPod
	peers   [2]netip.Addr
}

// point is one of a recent tenancy, or of nobody's.
func (a *audit) point() auditPoint {
	rnd, now := a.rnd, a.node.now
	p := auditPoint{at: now}
	if rnd.IntN(3) == 0 {
		for end := range p.peers {
			p.peers[end] = poolAddr(rnd, rnd.IntN(2) == 0)
		}
	}
	if rnd.IntN(40) == 0 || len(a.node.recent) == 0 {
		p.kind = byNobody
		a.setAddress(&p, []netip.Addr{nodeAddress, netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("127.0.0.1")}[rnd.IntN(3)])
		return p
	}
	l := a.node.recent[rnd.IntN(len(a.node.recent))]
	if l.end == never && rnd.IntN(20) == 0 {
		p.untimed = true
	} else {
		p.at = a.pastOf(l)
	}
	p.truth = l.pod
	if l.pod.hostNetwork {
		p.kind, p.attrs, p.keys = byUID, map[string]any{"k8s.pod.uid": l.pod.uid}, []any{podUID(l.pod.uid)}
		return p
	}
	addr := l.addrs[rnd.IntN(len(l.addrs))]
	switch p.kind = pointKind(rnd.IntN(int(byAddress) + 1)); p.kind {
	case byNetNS:
		a.setAddress(&p, addr)
		p.attrs["linux.netns.inode"], p.keys = int64(l.netns), []any{l.netns, addr}
	case byEndpoint:
		a.setAddress(&p, addr)
		p.attrs["hns.endpoint.id"], p.attrs["container.id"] = l.hns[rnd.IntN(len(l.hns))], l.sandbox
		p.keys = []any{sandboxID(l.sandbox), addr} // who tells of the one tells of the other, too
	case byUID:
		p.attrs, p.keys = map[string]any{"k8s.pod.uid": l.pod.uid}, []any{podUID(l.pod.uid)}
	case byAddress:
		a.setAddress(&p, addr)
	}
	return p
}

// pastOf is a time that the tenancy lasted, mostly the latest.
func (a *audit) pastOf(l *tenancy) int64 {
	reach := []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 2 * time.Second, time.Duration(auditReach)}[a.rnd.IntN(4)]
	last := min(a.node.now, l.end-1)
	first := max(l.begin, last-int64(reach), a.node.now-auditReach)
	if first >= last {
		return last
	}
	return first + a.rnd.Int64N(last-first+1)
}

// setAddress writes an address in one of the forms that telemetry has it in.
func (a *audit) setAddress(p *auditPoint, addr netip.Addr) {
	s := addr.String()
	switch form := a.rnd.IntN(8); {
	case form == 0:
		s = netip.AddrPortFrom(addr, 8080).String()
	case form == 1 && addr.Is4():
		s = "::ffff:" + s
	case form == 1:
		s += "%eth0"
	}
	p.attrs, p.keys = map[string]any{"k8s.pod.ip": s}, []any{addr}
}

// auditTally counts what became of the points, of all nodes and of the last.
type auditTally struct {
	all, node [numKinds][numVerdicts]int64
	reasons   map[string]int64
}

func newAuditTally() *auditTally { return &auditTally{reasons: map[string]int64{}} }

func (t *auditTally) add(k pointKind, v verdict) { t.node[k][v]++ }

// beginNode forgets what is left of a node whose audit failed.
func (t *auditTally) beginNode() { t.node = [numKinds][numVerdicts]int64{} }

func (t *auditTally) endNode() {
	for k := range t.node {
		for v, n := range t.node[k] {
			t.all[k][v] += n
		}
	}
	t.beginNode()
}

// points counts those that were judged, without their peers.
func (t *auditTally) points() (n int64) {
	for k := range numKinds {
		for _, v := range []verdict{named, unnamed, unknowable, disputed} {
			if k != asPeer {
				n += t.all[k][v]
			}
		}
	}
	return n
}

func (t *auditTally) print(tb testing.TB) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-17s %9s %9s %10s %9s %6s %9s %9s\n", "points by", "named", "unnamed", "unknowable", "disputed", "wrong", "settled", "unnamed")
	for k := range numKinds {
		n := t.all[k]
		fmt.Fprintf(&b, "%-17s %9d %9d %10d %9d %6d %9d %9d\n", k, n[named], n[unnamed], n[unknowable], n[disputed], n[wrong], n[settledPoint], n[settledUnnamed])
	}
	b.WriteString("reasons of the unnamed:")
	for _, r := range slices.Sorted(maps.Keys(t.reasons)) {
		fmt.Fprintf(&b, " %s=%d", r, t.reasons[r])
	}
	tb.Log(b.String())
}

// check asserts that the audit saw something: with sources that tell at once
// everything has its name, and with the others whatever they agree about.
func (t *auditTally) check(tb testing.TB, c conduct) {
	for k := range numKinds {
		n := t.all[k]
		assert.Zero(tb, n[settledUnnamed], "points by %s without a name, though all sources agree", k)
		switch k {
		case byUID, byEndpoint:
			assert.Zero(tb, n[unknowable]+n[disputed], "points by %s, which is one pod's only, with another's name", k)
		case byNobody:
			assert.Zero(tb, n[named]+n[unknowable]+n[disputed], "points of nobody with a name")
			continue
		case byUntold:
			if c.name == "fresh" {
				assert.Zero(tb, n[named]+n[unnamed]+n[unknowable]+n[disputed], "points by %s, though all was told at once", k)
			}
			continue
		}
		if k != asPeer {
			assert.Greater(tb, n[settledPoint], (n[named]+n[unnamed])/10, "points by %s about which all sources agree", k)
		}
		floor := (n[named] + n[unnamed]) / 2
		switch {
		case k == asPeer: // most of them are of addresses that nobody has
			floor = (n[named] + n[unnamed]) / 10
		case c.name == "fresh":
			floor = (n[named] + n[unnamed]) * 95 / 100
		}
		assert.Greater(tb, n[named], floor, "points by %s with a name", k)
		if c.name == "fresh" {
			assert.Zero(tb, n[unknowable]+n[disputed], "points by %s with a wrong name, though all was told at once", k)
		}
	}
}
