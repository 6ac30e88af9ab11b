// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
)

const (
	// leastRivalry is how long two pods must claim an address to be worth a
	// message: one source is often a little behind another.
	leastRivalry = 5 * time.Second
	// maxRivalries is how many of them a message names.
	maxRivalries = 10
	// maxClaims is how many pods it names for each: a source that gives the node's
	// address to every pod on the host's network makes as many claims.
	maxClaims = 10
)

// rivals remembers which addresses several pods claim, to say it once.
type rivals struct {
	known map[netip.Addr]*rivalry
}

type rivalry struct {
	claims string
	since  time.Time
	said   bool
}

// look takes the addresses that several pods claim now, and returns those of
// which nothing has been said yet, as text.
func (r *rivals) look(current []cache.Rivalry, names []string, now time.Time) (news []string) {
	known := make(map[netip.Addr]*rivalry, len(current))
	for _, c := range current {
		claims := describeClaims(c.Claims, names)
		k := r.known[c.Address]
		if k == nil || k.claims != claims {
			k = &rivalry{claims: claims, since: now}
		}
		known[c.Address] = k
		if !k.said && now.Sub(k.since) >= leastRivalry {
			k.said = true
			news = append(news, c.Address.String()+": "+claims)
		}
	}
	r.known = known
	return news
}

// describeClaims names the first pods, each with its sources.
func describeClaims(claims []cache.Claim, names []string) string {
	sources := map[string][]string{}
	for _, c := range claims {
		pod := c.Identity.Namespace + "/" + c.Identity.Name
		if c.Identity.UID != "" {
			pod += " " + c.Identity.UID
		}
		if s := names[c.Source]; !slices.Contains(sources[pod], s) {
			sources[pod] = append(sources[pod], s)
		}
	}
	pods := make([]string, 0, len(sources))
	for _, pod := range slices.Sorted(maps.Keys(sources)) {
		if len(pods) == maxClaims {
			pods = append(pods, "and others") // no number: it may change all the time
			break
		}
		pods = append(pods, fmt.Sprintf("%s (says %s)", pod, strings.Join(sources[pod], ", ")))
	}
	return strings.Join(pods, ", ")
}

// reportRivals tells the operator, once, of addresses that several pods claim.
func (e *identityExtension) reportRivals() {
	news := e.rivals.look(e.cache.Rivalries(), e.names, time.Now())
	if len(news) > 0 {
		e.logger.Warn("Several pods claim an address: its data stays without a name unless it has another key; find out which source is wrong",
			zap.Int("count", len(news)), zap.Strings("addresses", news[:min(len(news), maxRivalries)]))
	}
}
