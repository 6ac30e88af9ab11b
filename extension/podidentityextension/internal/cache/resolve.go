// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// Resolve answers as podidentity.Resolver says. It takes no lock and allocates
// nothing.
func (c *Cache) Resolve(q podidentity.Query) (*podidentity.Identity, podidentity.Outcome) {
	t := present
	if !q.At.IsZero() {
		t = min(q.At.UnixNano(), present)
	}
	id, outcome := c.resolve(&q, t)
	if outcome == podidentity.Mismatch {
		// A writer shows a new pod's keys one after another, strongest first: what
		// had no lease a moment ago can have one now.
		id, outcome = c.resolve(&q, t)
	}
	c.lookups.add(outcome)
	if outcome != podidentity.Found {
		c.missed()
	}
	return id, outcome
}

func (c *Cache) resolve(q *podidentity.Query, t int64) (*podidentity.Identity, podidentity.Outcome) {
	var asked keyKinds // kinds that had no lease
	if q.UID != "" {
		if l := c.uids.load(q.UID); l != nil {
			if l.differ() { // then no time says which of them the data is of
				return nil, podidentity.Ambiguous
			}
			if id, _, outcome := l.at(t, true, address{}); outcome != podidentity.Unknown {
				return id, outcome
			}
		}
		asked |= kindUID
	}
	sandbox := q.Sandbox
	if sandbox == "" {
		sandbox = q.Container
	}
	if sandbox != "" {
		if l := c.sandboxes.load(sandbox); l != nil {
			if id, kinds, outcome := l.at(t, true, address{}); outcome != podidentity.Unknown {
				return checked(id, kinds&asked, outcome)
			}
		}
		if q.Sandbox != "" {
			asked |= kindSandbox
		}
	}
	if q.HNSEndpoint != "" {
		if g, ok := parseGUID(q.HNSEndpoint); ok {
			if l := c.hns.load(g); l != nil {
				if id, kinds, outcome := l.at(t, true, address{}); outcome != podidentity.Unknown {
					return checked(id, kinds&asked, outcome)
				}
			}
			asked |= kindHNSEndpoint
		}
	}
	if q.NetNS != 0 {
		if l := c.netns.load(q.NetNS); l != nil {
			if id, kinds, outcome := l.at(t, false, address{}); outcome != podidentity.Unknown {
				return checked(id, kinds&asked, outcome)
			}
		}
		asked |= kindNetNS
	}
	if q.Address.IsValid() {
		// Addresses that can't tell pods apart are no keys: they are never found.
		a := addressOf(q.Address)
		if l := c.addrs.load(c.addrs.key(a)); l != nil {
			if a.is4() {
				a = address{}
			}
			id, kinds, outcome := l.at(t, false, a)
			return checked(id, kinds&asked, outcome)
		}
	}
	return nil, podidentity.Unknown
}

// checked turns a pod that is known to have another value for a stronger key
// into a mismatch.
func checked(id *podidentity.Identity, contradicted keyKinds, outcome podidentity.Outcome) (*podidentity.Identity, podidentity.Outcome) {
	if outcome == podidentity.Found && contradicted != 0 {
		return nil, podidentity.Mismatch
	}
	return id, outcome
}

// at returns the pod that held the leases' key at t, and the kinds of keys that
// are known of it. unique says that the key is never given to a second pod, so
// that data from before the first lease is the same pod's too: a source may
// learn of a pod after the pod's first packets.
//
// A pod whose name no source knows yet has nothing to say, and its lease is no
// claim against another pod: it may turn out to be the same. of is the address
// that was asked for where the key is a fingerprint, else zero: leases of another
// address with the same fingerprint are passed over.
func (l *lease) at(t int64, unique bool, of address) (*podidentity.Identity, keyKinds, podidentity.Outcome) {
	var (
		found *view
		kinds keyKinds
		first = l
		ended bool
	)
	for ; l != nil; l = l.next {
		if t < l.begin || t >= l.end {
			ended = ended || t >= l.end
			if l.begin < first.begin {
				first = l
			}
			continue
		}
		v := l.holder.view.Load()
		switch {
		case v.identity.Name == "", of != address{} && !l.holder.holds(of):
			continue
		case found == nil:
			found, kinds = v, v.kinds
			continue
		case !found.same(v):
			return nil, 0, podidentity.Ambiguous
		case v.identity.UID == "":
			found = v // the other can be an earlier pod of the name: its UID would be a guess
		}
		kinds |= v.kinds
	}
	switch {
	case found != nil:
		return &found.identity, kinds, podidentity.Found
	case ended:
		return nil, 0, podidentity.Ended
	case unique && t < first.begin:
		if v := first.holder.view.Load(); v.identity.Name != "" {
			return &v.identity, v.kinds, podidentity.Found
		}
	}
	return nil, 0, podidentity.Unknown
}
