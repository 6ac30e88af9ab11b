// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

// A table is a map that gives back the room of what was deleted, which Go's maps
// keep.
type table[K comparable, V any] struct {
	m    map[K]V
	peak int // most entries since the room was taken
}

// leastRoom is not worth giving back.
const leastRoom = 64

func (t *table[K, V]) get(k K) V { return t.m[k] }

func (t *table[K, V]) set(k K, v V) {
	if t.m == nil {
		t.m = map[K]V{}
	}
	t.m[k] = v
	t.peak = max(t.peak, len(t.m))
}

func (t *table[K, V]) delete(k K) {
	delete(t.m, k)
	if t.peak <= leastRoom || len(t.m) > t.peak/4 {
		return
	}
	m := make(map[K]V, len(t.m))
	for k, v := range t.m {
		m[k] = v
	}
	t.m, t.peak = m, len(m)
}
