// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/hex"
	"slices"
	"sync/atomic"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// keyKinds is a set of kinds of keys.
type keyKinds uint8

const (
	kindUID keyKinds = 1 << iota
	kindSandbox
	kindHNSEndpoint
	kindNetNS
	kindAddress
)

// A view is what is known of a pod: its identity and which kinds of keys it has.
// It never changes once readers can see it.
type view struct {
	kinds    keyKinds
	identity podidentity.Identity
}

// same says whether two views can be taken for one pod when an answer must name
// one: the same name, and nothing that says that the UIDs differ.
func (v *view) same(w *view) bool {
	a, b := &v.identity, &w.identity
	return a.Name == b.Name && a.Namespace == b.Namespace && (a.UID == b.UID || a.UID == "" || b.UID == "")
}

// guid is an HNS endpoint's id, in one spelling for all.
type guid [16]byte

// parseGUID reads a GUID in any case, with or without braces.
func parseGUID(s string) (g guid, ok bool) {
	if len(s) == 38 && s[0] == '{' && s[37] == '}' {
		s = s[1:37]
	}
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return guid{}, false
	}
	var b [32]byte
	n := copy(b[:], s[0:8])
	n += copy(b[n:], s[9:13])
	n += copy(b[n:], s[14:18])
	n += copy(b[n:], s[19:23])
	copy(b[n:], s[24:36])
	if _, err := hex.Decode(g[:], b[:]); err != nil {
		return guid{}, false
	}
	return g, true
}

// A record is what one source says of one pod, for as long as the keys stay the
// same. Readers use its view and addresses, which lie together; the rest is the
// writers'.
type record struct {
	view  atomic.Pointer[view] // what all sources say of the pod; from the record's end on, what they said then
	addrs []address            // never changed once readers can see the record

	source   uint8 // rank in the order of precedence, 0 first
	stated   bool  // begin is the source's word, not the time of first sight
	dead     bool  // listed by its source, but its sandbox is known to have ended; holds no lease
	relabels bool  // its source sees labels change
	begin    int64
	end      int64
	sure     int64 // live, or for a restored record that no source has confirmed, when it was last known to hold
	owner    string
	sandbox  string
	netns    uint64
	own      *view // what this source says
	pod      *pod
	hns      []guid
	released []address // claimed by the source, but gone with the pod's dead sandbox
}

// newRecord takes over what can be resolved of r: usable addresses, once each,
// and neither addresses nor namespace for a pod on the host's network.
func newRecord(r *podidentity.Record, source uint8) *record {
	n := &record{source: source, owner: r.Owner, sandbox: r.Sandbox, end: live, sure: live, stated: !r.Begin.IsZero()}
	if !r.HostNetwork {
		n.netns = r.NetNS
		for _, a := range r.Addresses {
			if a, ok := podidentity.NormalizeAddr(a); ok && !n.holds(addressOf(a)) {
				n.addrs = append(n.addrs, addressOf(a))
			}
		}
		for _, s := range r.HNSEndpoints {
			if g, ok := parseGUID(s); ok && !slices.Contains(n.hns, g) {
				n.hns = append(n.hns, g)
			}
		}
	}
	n.addrs, n.hns = slices.Clip(n.addrs), slices.Clip(n.hns)
	return n
}

// copy returns a live record that says the same.
func (r *record) copy() *record {
	return &record{
		source: r.source, stated: r.stated, relabels: r.relabels, begin: r.begin, end: live, sure: r.sure,
		owner: r.owner, sandbox: r.sandbox, netns: r.netns, own: r.own,
		addrs: r.addrs, hns: r.hns, released: r.released,
	}
}

// yield moves what r claims of gone addresses to those that it only claims.
func (r *record) yield(gone []address) {
	kept := without(r.addrs, gone)
	if len(kept) == len(r.addrs) {
		return
	}
	r.released = without(r.addrs, kept)
	r.addrs = kept
}

func (r *record) holds(a address) bool { return slices.Contains(r.addrs, a) }

// uid is the pod's UID as this source has it.
func (r *record) uid() string { return r.own.identity.UID }

func (r *record) kinds(uid string) (k keyKinds) {
	if uid != "" {
		k |= kindUID
	}
	if r.sandbox != "" {
		k |= kindSandbox
	}
	if len(r.hns) > 0 {
		k |= kindHNSEndpoint
	}
	if r.netns != 0 {
		k |= kindNetNS
	}
	if len(r.addrs) > 0 {
		k |= kindAddress
	}
	return k
}

// sameKeys says whether a source repeats itself: the same keys for the same pod.
func (r *record) sameKeys(n *record, id *podidentity.Identity) bool {
	return r.sandbox == n.sandbox && r.netns == n.netns &&
		r.own.identity.UID == id.UID && r.own.identity.Name == id.Name && r.own.identity.Namespace == id.Namespace &&
		slices.Equal(r.addrs, n.addrs) && slices.Equal(r.hns, n.hns)
}

// extends says whether n can be the same pod that r is, known better: nothing
// that was known has become something else.
func (r *record) extends(n *record, id *podidentity.Identity) bool {
	kept := func(before, after string) bool { return before == "" || before == after }
	return kept(r.own.identity.UID, id.UID) && kept(r.sandbox, n.sandbox) &&
		kept(r.own.identity.Name, id.Name) && kept(r.own.identity.Namespace, id.Namespace)
}
