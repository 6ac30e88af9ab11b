// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// counters count look-ups by outcome. Each look-up adds to a stripe taken at
// random, so that readers on different cores seldom meet on a cache line.
type counters struct {
	stripes []stripe
	mask    uint32
}

type stripe struct {
	n [podidentity.NumOutcomes]atomic.Int64
	_ [128 - 8*podidentity.NumOutcomes]byte // two cache lines: processors fetch them in pairs
}

func newCounters() counters {
	n := 1
	for n < 4*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	return counters{stripes: make([]stripe, n), mask: uint32(n - 1)}
}

func (c *counters) add(o podidentity.Outcome) {
	c.stripes[rand.Uint32()&c.mask].n[o].Add(1)
}

func (c *counters) sum(o podidentity.Outcome) (n int64) {
	for i := range c.stripes {
		n += c.stripes[i].n[o].Load()
	}
	return n
}

// misses turns look-ups that found nothing into at most one signal at a time.
type misses struct {
	signal chan struct{}
	armed  atomic.Bool
}

func newMisses() misses { return misses{signal: make(chan struct{}, 1)} }

func (c *Cache) missed() {
	if c.misses.armed.Load() && c.misses.armed.CompareAndSwap(true, false) {
		select {
		case c.misses.signal <- struct{}{}:
		default:
		}
	}
}

// Missed returns a channel that receives when a look-up found no pod, once for
// each Listen.
func (c *Cache) Missed() <-chan struct{} { return c.misses.signal }

// Listen makes the next look-up that finds no pod send to Missed.
func (c *Cache) Listen() { c.misses.armed.Store(true) }
