// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"slices"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A Rivalry is an address that several pods claim now.
type Rivalry struct {
	Address netip.Addr
	Claims  []Claim // one for each pod and source, by source
}

// A Claim is a source's word that a pod has an address.
type Claim struct {
	Source   int
	Identity podidentity.Identity // merged from all sources
}

// noteRivals notes which of n's addresses are another pod's, too.
func (c *Cache) noteRivals(n *record) {
	for _, a := range n.addrs {
		for l := c.addrs.load(c.addrs.key(a)); l != nil; l = l.next {
			if l.live() && l.holder.pod != n.pod && l.holder.holds(a) {
				c.rivalries.set(a, struct{}{})
				break
			}
		}
	}
}

// Rivalries returns the addresses that several pods claim now, in their order.
func (c *Cache) Rivalries() (rivalries []Rivalry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var over []address
	for a := range c.rivalries.m {
		r, goesOn := c.rivalry(a)
		switch {
		case !goesOn:
			over = append(over, a)
		case r.Claims != nil:
			rivalries = append(rivalries, r)
		}
	}
	for _, a := range over {
		c.rivalries.delete(a)
	}
	slices.SortFunc(rivalries, func(a, b Rivalry) int { return a.Address.Compare(b.Address) })
	return rivalries
}

// rivalry returns who claims an address, if look-ups cannot take them for one
// pod. It goes on, be it without claims that differ, for as long as there are two
// pods.
func (c *Cache) rivalry(a address) (r Rivalry, goesOn bool) {
	r.Address = a.netip()
	var first *record
	ambiguous := false
	for l := c.addrs.load(c.addrs.key(a)); l != nil; l = l.next {
		h := l.holder
		if !l.live() || !h.holds(a) {
			continue
		}
		v := h.view.Load()
		if first == nil {
			first = h
		}
		goesOn = goesOn || h.pod != first.pod
		if v.identity.Name == "" {
			continue
		}
		ambiguous = ambiguous || slices.ContainsFunc(r.Claims, func(o Claim) bool { return !v.same(&view{identity: o.Identity}) })
		r.Claims = append(r.Claims, Claim{Source: int(h.source), Identity: v.identity})
	}
	if !ambiguous {
		r.Claims = nil
	}
	slices.SortStableFunc(r.Claims, func(a, b Claim) int { return a.Source - b.Source })
	return r, goesOn
}
