// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var epoch = time.Unix(1_700_000_000, 0)

func prefixes(s ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, p := range s {
		ps = append(ps, netip.MustParsePrefix(p))
	}
	return ps
}

func addrs(s ...string) []netip.Addr {
	var as []netip.Addr
	for _, a := range s {
		as = append(as, netip.MustParseAddr(a))
	}
	return as
}

func newPool(t testing.TB, coolDown time.Duration, p ...string) *Pool {
	pool, err := NewPool(prefixes(p...), coolDown)
	require.NoError(t, err)
	return pool
}

func TestAllocate(t *testing.T) {
	for _, tt := range []struct {
		name     string
		prefixes []string
		want     [][]netip.Addr // all of them, in order
	}{
		{"IPv4 keeps back the first two and the last", []string{"10.88.0.0/29"},
			[][]netip.Addr{addrs("10.88.0.2"), addrs("10.88.0.3"), addrs("10.88.0.4"), addrs("10.88.0.5"), addrs("10.88.0.6")}},
		{"IPv6 has no last address to keep back", []string{"fd00::8/126"},
			[][]netip.Addr{addrs("fd00::a"), addrs("fd00::b")}},
		{"both families are one allocation, as many as the smaller has", []string{"10.88.0.0/30", "fd00:88::/64"},
			[][]netip.Addr{addrs("10.88.0.2", "fd00:88::2")}},
		{"IPv4 comes first whatever the configuration's order", []string{"fd00:88::/64", "10.88.0.0/30"},
			[][]netip.Addr{addrs("10.88.0.2", "fd00:88::2")}},
		{"prefixes of one family follow each other", []string{"10.1.0.0/30", "fd00::/64", "10.2.0.4/30"},
			[][]netip.Addr{addrs("10.1.0.2", "fd00::2"), addrs("10.2.0.6", "fd00::3")}},
		{"octets carry", []string{"10.0.0.252/30", "10.0.255.248/29"},
			[][]netip.Addr{addrs("10.0.0.254"), addrs("10.0.255.250"), addrs("10.0.255.251"), addrs("10.0.255.252"), addrs("10.0.255.253"), addrs("10.0.255.254")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newPool(t, 0, tt.prefixes...)
			for _, want := range tt.want {
				got, err := pool.Allocate(epoch)
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
			_, err := pool.Allocate(epoch)
			assert.ErrorIs(t, err, ErrFull)
			assert.Equal(t, Counts{Used: len(tt.want)}, pool.Counts(epoch))
		})
	}
}

func TestNewPoolRefuses(t *testing.T) {
	_, err := NewPool(nil, 0)
	assert.EqualError(t, err, "no prefix")
	_, err = NewPool(prefixes("10.0.0.0/24", "10.1.0.0/31"), 0)
	assert.EqualError(t, err, "prefix 10.1.0.0/31 has no usable address")
}

func TestHugePrefixIsBounded(t *testing.T) {
	pool := newPool(t, 0, "fd00::/32", "fd01::/64")
	assert.Equal(t, Counts{Free: maxSlots}, pool.Counts(epoch))
}

func TestCoolDown(t *testing.T) {
	pool := newPool(t, time.Minute, "10.0.0.0/29") // five addresses
	var got [][]netip.Addr
	for range 5 {
		a, err := pool.Allocate(epoch)
		require.NoError(t, err)
		got = append(got, a)
	}
	pool.Release(got[1], epoch)
	pool.Release(got[0], epoch.Add(10*time.Second))
	assert.Equal(t, Counts{Used: 3, Cooling: 2}, pool.Counts(epoch.Add(20*time.Second)))

	_, err := pool.Allocate(epoch.Add(20 * time.Second))
	require.ErrorIs(t, err, ErrFull)
	assert.EqualError(t, err, "no address is free in [10.0.0.0/29]: 3 in use, 2 cooling down (the next one for 40s)")

	a, err := pool.Allocate(epoch.Add(time.Minute))
	require.NoError(t, err, "the cool-down is over")
	assert.Equal(t, got[1], a)
	_, err = pool.Allocate(epoch.Add(time.Minute))
	require.ErrorIs(t, err, ErrFull)
}

func TestAddressesRestAsLongAsPossible(t *testing.T) {
	pool := newPool(t, 0, "10.0.0.0/24")
	seen := map[netip.Addr]bool{}
	for range 253 {
		a, err := pool.Allocate(epoch)
		require.NoError(t, err)
		require.False(t, seen[a[0]], "%s came again before the others had their turn", a[0])
		seen[a[0]] = true
		pool.Release(a, epoch)
	}
}

func TestReturnNeedsNoCoolDown(t *testing.T) {
	pool := newPool(t, time.Hour, "10.0.0.0/30")
	a, err := pool.Allocate(epoch)
	require.NoError(t, err)
	pool.Return(a)
	again, err := pool.Allocate(epoch)
	require.NoError(t, err)
	assert.Equal(t, a, again)
}

func TestClaim(t *testing.T) {
	pool := newPool(t, 0, "10.0.0.0/29", "fd00::/64")
	pool.Claim(addrs("10.0.0.2", "fd00::2"))
	pool.Claim(addrs("192.0.2.7", "2001:db8::7")) // of a prefix that is no longer configured
	a, err := pool.Allocate(epoch)
	require.NoError(t, err)
	assert.Equal(t, addrs("10.0.0.3", "fd00::3"), a)
	pool.Release(addrs("192.0.2.7", "2001:db8::7"), epoch)
	assert.Equal(t, Counts{Used: 2, Free: 3}, pool.Counts(epoch))
}

// A changed prefix pairs other addresses than before: neither of a recorded
// allocation's two addresses may go to anybody else until both holders are gone.
func TestClaimAcrossSlots(t *testing.T) {
	pool := newPool(t, 0, "10.0.0.0/29", "fd00::/64")
	a, b := addrs("10.0.0.2", "fd00::4"), addrs("10.0.0.4", "fd00::2")
	pool.Claim(a)
	pool.Claim(b)
	assert.Equal(t, 2, pool.Counts(epoch).Used)
	pool.Release(a, epoch)
	assert.Equal(t, 2, pool.Counts(epoch).Used, "b still holds one address of each slot")
	pool.Release(b, epoch)
	assert.Equal(t, Counts{Free: 5}, pool.Counts(epoch))
}

// After a restart an address's releases are claimed and released in their order:
// its cool-down is counted from the last.
func TestCoolDownIsCountedFromTheLastRelease(t *testing.T) {
	pool := newPool(t, time.Minute, "10.0.0.0/30")
	a := addrs("10.0.0.2")
	for _, at := range []time.Time{epoch, epoch.Add(time.Hour)} {
		pool.Claim(a)
		pool.Release(a, at)
	}
	now := epoch.Add(time.Hour + time.Second)
	assert.Equal(t, Counts{Cooling: 1}, pool.Counts(now))
	_, err := pool.Allocate(now)
	require.ErrorIs(t, err, ErrFull)

	pool.Claim(a)
	assert.Equal(t, Counts{Used: 1}, pool.Counts(now), "in use, it does not cool down")
	assert.Equal(t, Counts{Used: 1}, pool.Counts(now.Add(time.Hour)))
	pool.Claim(a)
	pool.Release(a, now)
	assert.Equal(t, Counts{Used: 1}, pool.Counts(now), "it has another holder")
	pool.Release(a, now)
	assert.Equal(t, Counts{Cooling: 1}, pool.Counts(now))
}

// 65,536 allocations and frees and more against a model that is too simple to be
// wrong: a map of who has what and until when it rests. Now and then the pool is
// made anew, from what is held and from releases, most of which have cooled down.
func TestAgainstModel(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			const coolDown = 50 * time.Second
			rnd := rand.New(rand.NewPCG(seed, 0))
			pool := newPool(t, coolDown, "10.88.0.0/16", "fd00:88::/64")
			capacity := 1<<16 - 3
			now := epoch
			var held [][]netip.Addr
			taken := map[netip.Addr]bool{}
			rests := map[netip.Addr]time.Time{}
			type released struct {
				addrs []netip.Addr
				at    time.Time
			}
			var releases []released
			full := 0

			allocate := func() {
				got, err := pool.Allocate(now)
				if err != nil {
					require.ErrorIs(t, err, ErrFull)
					if full++; full%100 != 0 { // counting takes long
						return
					}
					resting := 0
					for _, until := range rests {
						if until.After(now) {
							resting++
						}
					}
					require.Equal(t, 2*capacity, len(taken)+resting, "full although an address is free")
					return
				}
				if len(got) != 2 {
					t.Fatalf("%v: not one address a family", got)
				}
				for i, a := range got {
					switch {
					case taken[a]:
						t.Fatalf("%s was given twice", a)
					case rests[a].After(now):
						t.Fatalf("%s was given during its cool-down", a)
					case !pool.prefixes[i].Contains(a):
						t.Fatalf("%s is not in %s", a, pool.prefixes[i])
					}
					taken[a] = true
					delete(rests, a)
				}
				held = append(held, got)
			}
			release := func() {
				i := rnd.IntN(len(held))
				for _, a := range held[i] {
					delete(taken, a)
					rests[a] = now.Add(coolDown)
				}
				pool.Release(held[i], now)
				releases = append(releases, released{held[i], now})
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
			restart := func() {
				pool = newPool(t, coolDown, "10.88.0.0/16", "fd00:88::/64")
				for _, a := range held {
					pool.Claim(a)
				}
				for _, r := range releases[max(len(releases)-3000, 0):] {
					pool.Claim(r.addrs)
					pool.Release(r.addrs, r.at)
				}
			}

			for range 1 << 16 { // fill it to the brim, and beyond
				allocate()
			}
			require.Len(t, held, capacity)
			full = 99 // so that the next time counts
			allocate()
			for turn := range 1 << 16 { // churn
				if turn%10_000 == 9_999 {
					restart()
				}
				now = now.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
				if len(held) > 0 && rnd.IntN(100) < 52 {
					release()
				} else {
					allocate()
				}
			}
			for len(held) > 0 {
				release()
			}
			require.Equal(t, Counts{Free: capacity}, pool.Counts(now.Add(coolDown)))
		})
	}
}

// The worst case of a full /16: one address is free, and it is the one just
// behind the cursor, so that the search goes all the way round.
func BenchmarkAllocateFull16(b *testing.B) {
	pool := newPool(b, 0, "10.88.0.0/16", "fd00:88::/64")
	var last []netip.Addr
	for range 1<<16 - 3 {
		last, _ = pool.Allocate(epoch)
	}
	b.ReportAllocs()
	for b.Loop() {
		pool.Return(last)
		var err error
		if last, err = pool.Allocate(epoch); err != nil {
			b.Fatal(err)
		}
	}
}

// No address is free at all.
func BenchmarkAllocateNone16(b *testing.B) {
	pool := newPool(b, 0, "10.88.0.0/16", "fd00:88::/64")
	for range 1<<16 - 3 {
		_, _ = pool.Allocate(epoch)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pool.Allocate(epoch); err == nil {
			b.Fatal("an address from a full prefix")
		}
	}
}
