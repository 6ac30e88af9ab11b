// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/ipam"
)

// errNoPrefix: it is not known yet which addresses may be given.
var errNoPrefix = errors.New("no prefix is known yet")

// addresses are the node's addresses, before and after it is known which they
// are: what is claimed and released before is made up for then. It is safe for
// concurrent use.
type addresses struct {
	coolDown time.Duration

	mu       sync.Mutex
	pool     *ipam.Pool // nil until it is known
	prefixes []netip.Prefix
	why      error // why it is not known
	claimed  [][]netip.Addr
	released []released
}

type released struct {
	addrs []netip.Addr
	at    time.Time
}

// Use has addresses given from prefixes from now on. It is called once.
func (a *addresses) Use(prefixes []netip.Prefix) error {
	pool, err := ipam.NewPool(prefixes, a.coolDown)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, addrs := range a.claimed {
		pool.Claim(addrs)
	}
	for _, r := range a.released {
		pool.Claim(r.addrs)
		pool.Release(r.addrs, r.at)
	}
	a.pool, a.prefixes, a.claimed, a.released = pool, prefixes, nil, nil
	return nil
}

// Unknown says why it is not known which addresses may be given.
func (a *addresses) Unknown(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = why
}

// Known returns the pool and its prefixes; the error wraps errNoPrefix.
func (a *addresses) Known() (*ipam.Pool, []netip.Prefix, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pool == nil && a.why != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoPrefix, a.why)
	}
	if a.pool == nil {
		return nil, nil, errNoPrefix
	}
	return a.pool, a.prefixes, nil
}

// Claim takes addresses that were given earlier.
func (a *addresses) Claim(addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pool != nil {
		a.pool.Claim(addrs)
		return
	}
	a.claimed = append(a.claimed, addrs)
}

// Release gives back what was claimed or allocated.
func (a *addresses) Release(addrs []netip.Addr, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pool != nil {
		a.pool.Release(addrs, at)
		return
	}
	// One claim only: what was released once may have another holder by now.
	if i := slices.IndexFunc(a.claimed, func(c []netip.Addr) bool { return slices.Equal(c, addrs) }); i >= 0 {
		a.claimed = slices.Delete(a.claimed, i, i+1)
	}
	a.released = append(a.released, released{addrs, at})
}
