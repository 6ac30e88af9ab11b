// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestRivalsAreSaidOnceForEachChange(t *testing.T) {
	names := []string{"push", "cri", "statefile/mine"}
	claim := func(source int, name, uid string) cache.Claim {
		return cache.Claim{Source: source, Identity: podidentity.Identity{Name: name, Namespace: "shop", UID: uid}}
	}
	two := []cache.Rivalry{{Address: netip.MustParseAddr("10.9.0.5"), Claims: []cache.Claim{
		claim(1, "web-0", "u1"), claim(1, "web-0", "u1"), claim(2, "web-0", "u1"), claim(2, "job", ""),
	}}}
	others := []cache.Rivalry{{Address: netip.MustParseAddr("10.9.0.5"), Claims: []cache.Claim{claim(1, "web-0", "u1"), claim(2, "db", "")}}}
	want := []string{"10.9.0.5: shop/job (says statefile/mine), shop/web-0 u1 (says cri, statefile/mine)"}
	now := time.Now()
	pass := func(d time.Duration) time.Time { now = now.Add(d); return now }

	var r rivals
	require.Empty(t, r.look(two, names, now))
	require.Empty(t, r.look(nil, names, pass(time.Second)), "one source was a little behind")
	require.Empty(t, r.look(two, names, pass(time.Second)))
	require.Equal(t, want, r.look(two, names, pass(leastRivalry)))
	require.Empty(t, r.look(two, names, pass(time.Hour)))
	require.Empty(t, r.look(others, names, pass(time.Second)))
	require.Len(t, r.look(others, names, pass(leastRivalry)), 1)
	require.Empty(t, r.look(nil, names, pass(time.Second)))
	require.Empty(t, r.known)
	require.Empty(t, r.look(two, names, pass(time.Second)))
	require.Equal(t, want, r.look(two, names, pass(leastRivalry)), "again")
}

// TestManyClaimsAreOneShortMessage: what changes beyond the pods named is no news.
func TestManyClaimsAreOneShortMessage(t *testing.T) {
	r := []cache.Rivalry{{Address: netip.MustParseAddr("10.9.0.1")}}
	for i := range 1000 {
		r[0].Claims = append(r[0].Claims, cache.Claim{Identity: podidentity.Identity{Name: fmt.Sprintf("agent-%03d", i), Namespace: "kube-system"}})
	}
	now := time.Now()
	var seen rivals
	require.Empty(t, seen.look(r, []string{"statefile"}, now))
	news := seen.look(r, []string{"statefile"}, now.Add(leastRivalry))
	require.Len(t, news, 1)
	require.Less(t, len(news[0]), 1000)
	require.Contains(t, news[0], "kube-system/agent-009 (says statefile), and others")
	r[0].Claims = r[0].Claims[:990]
	require.Empty(t, seen.look(r, []string{"statefile"}, now.Add(time.Minute)))
	require.Empty(t, seen.look(r, []string{"statefile"}, now.Add(time.Hour)))
}

func TestRivalsOfTwoSourcesAreReported(t *testing.T) {
	r := newRig(t, time.Hour)
	r.a.sink.Put(pod("u1", "web-0"))
	r.b.sink.Put(pod("u2", "job"))
	require.Eventually(t, func() bool { return r.logs.FilterMessageSnippet("Several pods claim an address").Len() == 1 }, time.Minute, 10*time.Millisecond)
	e := r.logs.FilterMessageSnippet("Several pods claim an address").All()[0].ContextMap()
	require.Equal(t, []any{"10.0.0.1: /job u2 (says scriptedb), /web-0 u1 (says scripteda)"}, e["addresses"])
}
