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
	sets map[uint64][]*labelSet
}

type labelSet struct {
	labels map[string]string
	users  int
}

func newInterner() interner {
	return interner{seed: maphash.MakeSeed(), sets: map[uint64][]*labelSet{}}
}

// identity returns a copy of id with shared labels, annotations and namespace.
// Each copy is released once.
func (n *interner) identity(id *podidentity.Identity) *podidentity.Identity {
	return &podidentity.Identity{
		Name:        id.Name,
		Namespace:   unique.Make(id.Namespace).Value(),
		UID:         id.UID,
		Labels:      n.share(id.Labels),
		Annotations: n.share(id.Annotations),
	}
}

// again counts another user of an interned identity.
func (n *interner) again(id *podidentity.Identity) {
	n.share(id.Labels)
	n.share(id.Annotations)
}

func (n *interner) release(id *podidentity.Identity) {
	n.unshare(id.Labels)
	n.unshare(id.Annotations)
}

func (n *interner) share(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	h := n.hash(labels)
	for _, s := range n.sets[h] {
		if maps.Equal(s.labels, labels) {
			s.users++
			return s.labels
		}
	}
	s := &labelSet{labels: make(map[string]string, len(labels)), users: 1}
	for k, v := range labels {
		s.labels[unique.Make(k).Value()] = unique.Make(v).Value()
	}
	n.sets[h] = append(n.sets[h], s)
	return s.labels
}

func (n *interner) unshare(labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	h := n.hash(labels)
	sets := n.sets[h]
	for i, s := range sets {
		if !maps.Equal(s.labels, labels) {
			continue
		}
		if s.users--; s.users == 0 {
			if sets = slices.Delete(sets, i, i+1); len(sets) == 0 {
				delete(n.sets, h)
			} else {
				n.sets[h] = sets
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
