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

func TestRivalries(t *testing.T) {
	n := newNode(t)
	n.Put(cri, sandbox("s1", "u1", "web-0", 41, "10.0.0.1", "10.0.0.2", "fd00::1"), false)
	n.Put(k8s, podidentity.Record{Owner: "u1", Addresses: addrs("10.0.0.1"), Identity: podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u1"}}, false)
	require.Empty(t, n.Rivalries(), "two sources of one pod")

	n.Put(file, podidentity.Record{Owner: "s2", Sandbox: "s2", Addresses: addrs("10.0.0.1")}, false)
	require.Empty(t, n.Rivalries(), "nobody knows yet whose it is")
	n.Put(file, sandbox("s2", "", "job", 0, "10.0.0.1", "fd00::1"), false)
	have := n.Rivalries()
	require.Len(t, have, 2)
	require.Equal(t, netip.MustParseAddr("10.0.0.1"), have[0].Address)
	require.Equal(t, netip.MustParseAddr("fd00::1"), have[1].Address)
	require.Len(t, have[0].Claims, 3)
	for i, want := range []struct {
		source int
		name   string
	}{{cri, "web-0"}, {k8s, "web-0"}, {file, "job"}} {
		require.Equal(t, want.source, have[0].Claims[i].Source)
		require.Equal(t, want.name, have[0].Claims[i].Identity.Name)
	}
	n.not(byAddr("10.0.0.1"), podidentity.Ambiguous)

	n.End(cri, "s1", time.Time{}, true)
	require.Empty(t, n.Rivalries())
	require.Empty(t, n.rivalries.m)
	n.found(byAddr("10.0.0.1"), "job")
}
