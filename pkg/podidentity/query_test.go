// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentity

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNormalizeAddr(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1":         "10.0.0.1",
		"::ffff:10.0.0.1":  "10.0.0.1",
		"fd00::1":          "fd00::1",
		"fd00::1%eth0":     "fd00::1",
		"0.0.0.0":          "",
		"::":               "",
		"127.0.0.1":        "",
		"::ffff:127.0.0.1": "",
		"::1":              "",
		"169.254.1.1":      "",
		"fe80::1":          "",
		"fe80::1%eth0":     "",
		"224.0.0.1":        "",
		"ff02::1":          "",
	} {
		got, ok := NormalizeAddr(netip.MustParseAddr(in))
		require.Equal(t, want != "", ok, in)
		if ok {
			require.Equal(t, netip.MustParseAddr(want), got, in)
		}
	}
	_, ok := NormalizeAddr(netip.Addr{})
	require.False(t, ok)
}

func TestOutcomesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for o := range NumOutcomes {
		require.NotEmpty(t, o.String())
		require.False(t, seen[o.String()], o.String())
		seen[o.String()] = true
	}
	require.Equal(t, "invalid", NumOutcomes.String())
}
