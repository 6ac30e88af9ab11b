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

// addresses are the node's addresses, whichever prefixes they are given from: what
// is in use or cooling down stays so when these change, or are not known yet. It is
// safe for concurrent use.
type addresses struct {
	coolDown time.Duration

	mu       sync.Mutex
	pool     *ipam.Pool // nil while the prefixes are not known
	prefixes []netip.Prefix
	why      error                         // why they are not known
	held     map[netip.Addr][][]netip.Addr // by the first of each
	resting  []released                    // in the order of their times
}

type released struct {
	addrs []netip.Addr
	at    time.Time
}

// Use has addresses given from prefixes from now on, but for the node's own.
func (a *addresses) Use(prefixes []netip.Prefix, own ...netip.Addr) error {
	pool, err := ipam.NewPool(prefixes, a.coolDown)
	if err != nil {
		return err
	}
	for _, addr := range own {
		pool.Claim([]netip.Addr{addr})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, held := range a.held {
		for _, addrs := range held {
			pool.Claim(addrs)
		}
	}
	for _, r := range a.resting {
		pool.Claim(r.addrs)
		pool.Release(r.addrs, r.at)
	}
	a.pool, a.prefixes, a.why = pool, prefixes, nil
	return nil
}

// Withdraw has no address given until the next Use, and says why.
func (a *addresses) Withdraw(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool, a.prefixes, a.why = nil, nil, why
}

// Known returns the pool and its prefixes; the error wraps errNoPrefix.
func (a *addresses) Known() (*ipam.Pool, []netip.Prefix, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pool, a.prefixes, a.unknown()
}

func (a *addresses) unknown() error {
	switch {
	case a.pool != nil:
		return nil
	case a.why != nil:
		return fmt.Errorf("%w: %w", errNoPrefix, a.why)
	}
	return errNoPrefix
}

// Allocate takes addresses for a workload; the error wraps errNoPrefix or
// ipam.ErrFull.
func (a *addresses) Allocate(now time.Time) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.unknown(); err != nil {
		return nil, err
	}
	addrs, err := a.pool.Allocate(now)
	if err == nil {
		a.hold(addrs)
	}
	return addrs, err
}

// Return gives back what was allocated but nobody has used: it needs no cool-down.
func (a *addresses) Return(addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.letGo(addrs)
	if a.pool != nil {
		a.pool.Return(addrs)
	}
}

// Claim takes addresses that were given earlier.
func (a *addresses) Claim(addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold(addrs)
	if a.pool != nil {
		a.pool.Claim(addrs)
	}
}

// Release gives back what was claimed or allocated.
func (a *addresses) Release(addrs []netip.Addr, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.letGo(addrs)
	a.resting = slices.DeleteFunc(a.resting, func(r released) bool { return !r.at.Add(a.coolDown).After(at) })
	a.resting = append(a.resting, released{addrs, at})
	if a.pool != nil {
		a.pool.Release(addrs, at)
	}
}

func (a *addresses) hold(addrs []netip.Addr) {
	if a.held == nil {
		a.held = map[netip.Addr][][]netip.Addr{}
	}
	a.held[addrs[0]] = append(a.held[addrs[0]], addrs)
}

// letGo ends one claim only: what was released once may have another holder by now.
func (a *addresses) letGo(addrs []netip.Addr) {
	held := a.held[addrs[0]]
	i := slices.IndexFunc(held, func(h []netip.Addr) bool { return slices.Equal(h, addrs) })
	switch {
	case i < 0:
	case len(held) == 1:
		delete(a.held, addrs[0])
	default:
		a.held[addrs[0]] = slices.Delete(held, i, i+1)
	}
}
