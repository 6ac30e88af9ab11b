// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"slices"
	"sync"
)

// wants are the labels and annotations that components asked identities to
// carry. The slices it hands out are never changed.
type wants struct {
	mu                  sync.Mutex
	labels, annotations []string
}

func (w *wants) add(labels, annotations []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.labels = union(w.labels, labels)
	w.annotations = union(w.annotations, annotations)
}

func (w *wants) all() (labels, annotations []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.labels, w.annotations
}

func union(a, b []string) []string {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}
