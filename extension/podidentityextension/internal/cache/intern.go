// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"hash/maphash"
	"maps"
	"slices"
	"unique"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// An interner keeps one copy of each set of labels: the pods of a deployment
// mostly have the same. It holds a set as long as a record uses it.
type interner struct {
	seed maphash.Seed
	sets table[uint64, []*labelSet]
}

type labelSet struct {
	labels map[string]string
	users  int
}

func newInterner() interner {
	return interner{seed: maphash.MakeSeed()}
}

// view returns a view with a copy of id that shares labels, annotations and
// namespace. Each is released once.
func (n *interner) view(id *podidentity.Identity, kinds keyKinds) *view {
	return &view{kinds: kinds, identity: podidentity.Identity{
		Name:        id.Name,
		Namespace:   unique.Make(id.Namespace).Value(),
		UID:         id.UID,
		Labels:      n.share(id.Labels),
		Annotations: n.share(id.Annotations),
	}}
}

// again counts another user of a view.
func (n *interner) again(v *view) {
	n.share(v.identity.Labels)
	n.share(v.identity.Annotations)
}

func (n *interner) release(v *view) {
	n.unshare(v.identity.Labels)
	n.unshare(v.identity.Annotations)
}

func (n *interner) share(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	h := n.hash(labels)
	for _, s := range n.sets.get(h) {
		if maps.Equal(s.labels, labels) {
			s.users++
			return s.labels
		}
	}
	s := &labelSet{labels: make(map[string]string, len(labels)), users: 1}
	for k, v := range labels {
		s.labels[unique.Make(k).Value()] = unique.Make(v).Value()
	}
	n.sets.set(h, append(n.sets.get(h), s))
	return s.labels
}

func (n *interner) unshare(labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	h := n.hash(labels)
	sets := n.sets.get(h)
	for i, s := range sets {
		if !maps.Equal(s.labels, labels) {
			continue
		}
		if s.users--; s.users == 0 {
			if sets = slices.Delete(sets, i, i+1); len(sets) == 0 {
				n.sets.delete(h)
			} else {
				n.sets.set(h, sets)
			}
		}
		return
	}
}

// hash does not depend on the order of the labels.
func (n *interner) hash(labels map[string]string) (h uint64) {
	for k, v := range labels {
		h += maphash.Comparable(n.seed, [2]string{k, v})
	}
	return h
}
