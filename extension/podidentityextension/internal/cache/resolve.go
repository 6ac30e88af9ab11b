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
			if id, _, outcome := l.at(t, true); outcome != podidentity.Unknown {
				return id, outcome
			}
		}
		asked |= kindUID
	}
	if q.Sandbox != "" {
		if l := c.sandboxes.load(q.Sandbox); l != nil {
			if id, kinds, outcome := l.at(t, true); outcome != podidentity.Unknown {
				return checked(id, kinds&asked, outcome)
			}
		}
		asked |= kindSandbox
	}
	if q.HNSEndpoint != "" {
		if g, ok := parseGUID(q.HNSEndpoint); ok {
			if l := c.hns.load(g); l != nil {
				if id, kinds, outcome := l.at(t, true); outcome != podidentity.Unknown {
					return checked(id, kinds&asked, outcome)
				}
			}
			asked |= kindHNSEndpoint
		}
	}
	if q.NetNS != 0 {
		if l := c.netns.load(q.NetNS); l != nil {
			if id, kinds, outcome := l.at(t, false); outcome != podidentity.Unknown {
				return checked(id, kinds&asked, outcome)
			}
		}
		asked |= kindNetNS
	}
	if addr, ok := podidentity.NormalizeAddr(q.Address); ok {
		if l := c.addrs.load(addr); l != nil {
			id, kinds, outcome := l.at(t, false)
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
func (l *lease) at(t int64, unique bool) (*podidentity.Identity, keyKinds, podidentity.Outcome) {
	if l.next == nil { // nearly always
		v := l.holder.pod.Load().view.Load()
		switch {
		case v.identity.Name == "":
			return nil, 0, podidentity.Unknown
		case l.covers(t), unique && t < l.begin:
			return v.identity, v.kinds | l.holder.kinds, podidentity.Found
		case t < l.begin:
			return nil, 0, podidentity.Unknown
		}
		return nil, 0, podidentity.Ended
	}
	return l.search(t, unique)
}

// search is at for a key with several leases.
func (l *lease) search(t int64, unique bool) (*podidentity.Identity, keyKinds, podidentity.Outcome) {
	var (
		found  *view
		kinds  keyKinds
		ended  bool
		oldest *lease
	)
	for ; l != nil; l = l.next {
		v := l.holder.pod.Load().view.Load()
		if v.identity.Name == "" { // nothing to say, and no claim to be another pod
			continue
		}
		if oldest == nil || l.begin <= oldest.begin {
			oldest = l
		}
		if !l.covers(t) {
			ended = ended || l.end <= t
			continue
		}
		switch {
		case found == nil:
			found, kinds = v, v.kinds|l.holder.kinds
		case !found.same(v):
			return nil, 0, podidentity.Ambiguous
		default:
			if found.identity.UID == "" {
				found = v
			}
			kinds |= v.kinds | l.holder.kinds
		}
	}
	switch {
	case found != nil:
		return found.identity, kinds, podidentity.Found
	case ended:
		return nil, 0, podidentity.Ended
	case unique && oldest != nil:
		v := oldest.holder.pod.Load().view.Load()
		return v.identity, v.kinds | oldest.holder.kinds, podidentity.Found
	}
	return nil, 0, podidentity.Unknown
}
