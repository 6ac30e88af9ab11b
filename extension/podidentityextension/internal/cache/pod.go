// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"maps"
	"slices"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A pod is what several sources' records say together. It lives as long as one
// of its members does; the ended ones keep the view they had.
type pod struct {
	members []*record // live ones, the strongest source first
}

// uid and sandboxes are the ids that tell pods apart for certain.
func (p *pod) uid() string {
	for _, m := range p.members {
		if m.own.identity.UID != "" {
			return m.own.identity.UID
		}
	}
	return ""
}

func (p *pod) hasSandbox() bool {
	return slices.ContainsFunc(p.members, func(m *record) bool { return m.sandbox != "" })
}

// anchor is the id that makes a pod the one it is.
func (p *pod) anchor() string {
	if uid := p.uid(); uid != "" {
		return uid
	}
	for _, m := range p.members {
		if m.sandbox != "" {
			return m.sandbox
		}
	}
	return ""
}

// holds says whether a member carries the id that was the pod's anchor.
func (p *pod) holds(anchor string) bool {
	return anchor == "" || slices.ContainsFunc(p.members, func(m *record) bool {
		return m.own.identity.UID == anchor || m.sandbox == anchor
	})
}

// comparable says whether both have an id of one kind, by which they would have
// been joined if they were the same.
func (p *pod) comparable(q *pod) bool {
	return p.uid() != "" && q.uid() != "" || p.hasSandbox() && q.hasSandbox()
}

// named says whether a member has exactly this name.
func (p *pod) named(id *podidentity.Identity) bool {
	return id.Name != "" && slices.ContainsFunc(p.members, func(m *record) bool {
		return m.own.identity.Name == id.Name && m.own.identity.Namespace == id.Namespace
	})
}

// differs says whether the two have different names.
func (p *pod) differs(q *pod) bool {
	return slices.ContainsFunc(p.members, func(m *record) bool {
		id := &m.own.identity
		return id.Name != "" && slices.ContainsFunc(q.members, func(o *record) bool {
			other := &o.own.identity
			return other.Name != "" && (other.Name != id.Name || other.Namespace != id.Namespace)
		})
	})
}

func (p *pod) add(r *record) {
	r.pod = p
	p.members = append(p.members, r)
	slices.SortStableFunc(p.members, func(a, b *record) int {
		if c := cmp.Compare(a.source, b.source); c != 0 {
			return c
		}
		return cmp.Compare(b.begin, a.begin) // of two sandboxes of a pod the newer one knows better
	})
}

func (p *pod) remove(r *record) {
	p.members = slices.DeleteFunc(p.members, func(m *record) bool { return m == r })
}

// refresh shows readers what the members say now.
func (p *pod) refresh() {
	if len(p.members) == 0 {
		return
	}
	v := merge(p.members)
	for _, m := range p.members {
		m.view.Store(v)
	}
}

// merge takes each field from the first member that has it, and all labels and
// annotations from the first that sees them change, if one does. Where the first
// member knows everything, its view is shared, not copied.
func merge(members []*record) *view {
	first := members[0].own
	if len(members) == 1 {
		return first
	}
	v := *first
	m, changed := &v.identity, false
	relabels := slices.IndexFunc(members, func(r *record) bool { return r.relabels })
	if relabels > 0 {
		id := &members[relabels].own.identity
		m.Labels, m.Annotations = id.Labels, id.Annotations
		changed = !maps.Equal(m.Labels, first.identity.Labels) || !maps.Equal(m.Annotations, first.identity.Annotations)
	}
	for _, r := range members[1:] {
		id := &r.own.identity
		v.kinds |= r.own.kinds
		if m.Name == "" && id.Name != "" {
			m.Name, m.Namespace, changed = id.Name, id.Namespace, true
		}
		if m.UID == "" && id.UID != "" {
			m.UID, changed = id.UID, true
		}
		if relabels < 0 {
			changed = mergeLabels(&m.Labels, id.Labels) || changed
			changed = mergeLabels(&m.Annotations, id.Annotations) || changed
		}
	}
	if !changed && v.kinds == first.kinds {
		return first
	}
	return &v
}

// mergeLabels adds to *into what only from has, and says whether it had to.
func mergeLabels(into *map[string]string, from map[string]string) bool {
	if len(*into) == 0 {
		*into = from
		return len(from) > 0
	}
	var merged map[string]string
	for k, v := range from {
		if _, has := (*into)[k]; has {
			continue
		}
		if merged == nil {
			merged = maps.Clone(*into)
		}
		merged[k] = v
	}
	if merged == nil {
		return false
	}
	*into = merged
	return true
}

// join finds the pod that r belongs to and makes r a member: the one with the
// same UID or sandbox, else, for records that share no such kind of id, the one
// with the same name and one of the same keys. Pods that turn out to be one are
// united. Those with different names never are: the kubelet gives static pods
// from one URL the same UID on every node, and a manifest can state any.
func (c *Cache) join(r *record) {
	p := r.pod
	if p == nil {
		p = &pod{}
		p.add(r)
		c.pods++
	}
	for l := c.uids.load(r.uid()); l != nil; l = l.next {
		p = c.unite(p, l)
	}
	for l := c.sandboxes.load(r.sandbox); l != nil; l = l.next {
		p = c.unite(p, l)
	}
	c.joinByName(p, r)
}

func (c *Cache) unite(p *pod, l *lease) *pod {
	q := l.holder.pod
	if !l.live() || p == q || p.differs(q) {
		return p
	}
	// The older pod stays, so that what readers hold stays true.
	for _, m := range p.members {
		q.add(m)
	}
	p.members = nil
	c.pods--
	return q
}

// joinByName unites p with the pods that share a reusable key and the name with
// its member r, unless ids say that they are different pods, or two of them are.
func (c *Cache) joinByName(p *pod, r *record) {
	var others []*lease
	consider := func(l *lease) {
		for ; l != nil; l = l.next {
			q := l.holder.pod
			if !l.live() || q == p || !q.named(&r.own.identity) || p.comparable(q) ||
				slices.ContainsFunc(others, func(o *lease) bool { return o.holder.pod == q }) {
				continue
			}
			others = append(others, l)
		}
	}
	c.eachReusable(r, consider)
	for i, a := range others {
		for _, b := range others[:i] {
			if a.holder.pod.comparable(b.holder.pod) {
				p.refresh()
				return
			}
		}
	}
	for _, l := range others {
		p = c.unite(p, l)
	}
	p.refresh()
}

// eachReusable calls f with the leases of every key of r that can pass from pod
// to pod.
func (c *Cache) eachReusable(r *record, f func(*lease)) {
	for _, a := range r.addrs {
		f(c.addrs.load(c.addrs.key(a)))
	}
	if r.netns != 0 {
		f(c.netns.load(r.netns))
	}
	for _, g := range r.hns {
		f(c.hns.load(g))
	}
}
