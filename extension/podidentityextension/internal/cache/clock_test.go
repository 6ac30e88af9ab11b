// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync/atomic"
	"time"
)

// fakeClock is a clock that only the test moves.
type fakeClock struct{ wall, mono atomic.Int64 }

var testEpoch = time.Unix(1_800_000_000, 0)

func newFakeClock() *fakeClock {
	c := &fakeClock{}
	c.wall.Store(testEpoch.UnixNano())
	return c
}

func (c *fakeClock) read() (wall, mono int64) { return c.wall.Load(), c.mono.Load() }

// pass lets time pass.
func (c *fakeClock) pass(d time.Duration) {
	c.wall.Add(int64(d))
	c.mono.Add(int64(d))
}

// set moves the wall clock only.
func (c *fakeClock) set(d time.Duration) { c.wall.Add(int64(d)) }

func (c *fakeClock) now() time.Time { return time.Unix(0, c.wall.Load()) }
