// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestAddressOf(t *testing.T) {
	of := func(s string) address { return addressOf(netip.MustParseAddr(s)) }
	require.Equal(t, of("10.0.0.1"), of("::ffff:10.0.0.1"))
	require.Equal(t, of("fd00::1"), of("fd00::1%a-zone-with-a-long-name"))
	require.NotEqual(t, of("10.0.0.1"), of("::10.0.0.1"))
	require.Equal(t, address{hi: 0xfd00 << 48, lo: 1}, of("fd00::1"))
	require.True(t, of("::ffff:10.0.0.1").is4())
	require.False(t, of("fd00::1").is4())
}

func TestAddressesWithOneFingerprint(t *testing.T) {
	n := newNode(t)
	n.addrs.seed = address{hi: 0xfd00 << 48} // the product is 0 for all of fd00::/64
	one, two := addressOf(netip.MustParseAddr("fd00::1")), addressOf(netip.MustParseAddr("fd00::2"))
	require.Equal(t, n.addrs.key(one), n.addrs.key(two))
	n.Put(cri, sandbox("s1", "u1", "one", 41, "fd00::1"), false)
	n.Put(cri, sandbox("s2", "u2", "two", 42, "fd00::2"), false)
	n.found(byAddr("fd00::1"), "one")
	n.found(byAddr("fd00::2"), "two")
	n.not(byAddr("fd00::3"), podidentity.Unknown)
	n.until(1)
	n.End(cri, "s1", time.Time{}, true)
	n.not(byAddr("fd00::1"), podidentity.Ended)
	n.found(byAddrAt("fd00::1", at(0.5)), "one")
	n.found(byAddr("fd00::2"), "two")
}
