// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"net/netip"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// The node of the tests is as of epoch.
var epoch = time.Now().Add(-30 * time.Second).Truncate(time.Second)

// goldenEpoch is the same time in the golden files: 1767225600.
var goldenEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	webHNS   = "41d40000-820a-406a-ade6-6b0400000063"
	webNetNS = 4026532001
)

func pod(name, uid string, addresses ...string) lease {
	l := lease{Record: podidentity.Record{
		Owner:    "sandbox-of-" + name,
		Identity: podidentity.Identity{Name: name, Namespace: "shop", UID: uid},
		Sandbox:  "sandbox-of-" + name,
		Begin:    epoch.Add(-time.Hour),
	}}
	for _, a := range addresses {
		l.Addresses = append(l.Addresses, netip.MustParseAddr(a))
	}
	return l
}

// node returns the leases of a node's pods.
func node() []lease {
	web := pod("web-0", "uid-of-web-0", "10.9.0.5", "fd00::5")
	web.NetNS, web.HNSEndpoints = webNetNS, []string{webHNS}
	web.Identity.Labels = map[string]string{"app": "web", "tier": "front"}
	web.Identity.Annotations = map[string]string{"team": "checkout"}

	// As from a state file without UIDs.
	cart := pod("cart-0", "", "10.9.0.6")

	agent := pod("agent-x", "uid-of-agent-x", "192.0.2.1")
	agent.HostNetwork = true

	// 10.9.0.7 went from old-0 to new-0 at epoch; 10.9.0.9 has been free since.
	old := pod("old-0", "uid-of-old-0", "10.9.0.7", "10.9.0.9")
	old.end = epoch
	successor := pod("new-0", "uid-of-new-0", "10.9.0.7")
	successor.Begin = epoch

	// Two pods that both claim 10.9.0.8.
	one, two := pod("one-0", "uid-of-one-0", "10.9.0.8"), pod("two-0", "uid-of-two-0", "10.9.0.8")
	return []lease{web, cart, agent, old, successor, one, two}
}
