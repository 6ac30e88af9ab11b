// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// The ways in which others were seen to name the wrong pod, and the test of each.
// Those of the cache are in internal/cache, of the API server's pods in
// internal/source/k8s, of the processor in processor/podenrichprocessor.
//
//	delayed delete by the old owner    cache TestLateRemovalOfTheOldOwnerLeavesTheNewHolder,
//	                                   k8s TestDelayedDeleteOfTheOldOwnerEndsOnlyTheOldOwner
//	completed pod that shadows         k8s TestCompletedPodEndsWhenItsContainersDid,
//	                                   TestCompletedPodOfTheFirstListHoldsNothing
//	same-name replacement              cache TestSameNameWithAnotherUIDIsAnotherPod,
//	                                   k8s TestSameNameWithANewUIDIsANewPod
//	delete without an address          TestDeleteWithoutAnAddress, and of a real API server
//	                                   test/k8s TestLives/delete_without_an_address
//	reactivated id                     cache TestDeadSandbox, TestLateEventsOfAReusedOwnerName
//	host network, by address           cache TestHostNetworkPodOwnsNoAddress
//	host network, by UID               processor TestResource/host-network_pod_by_UID
//	second family                      cache TestEveryKeyOfAPodResolves,
//	                                   processor TestResource/second_family
//	IPv4-mapped, zone and port forms   processor internal/address TestParse
//	one address on two networks        TestOneSecondaryAddressOnTwoNetworks, and of a real API server
//	                                   test/k8s TestLives/one_secondary_address_of_two_pods
//	API server restart                 k8s TestUnreachableServerIsReportedAndItsReturn
//	log storm when refused by RBAC     k8s TestRefusalNamesTheVerbOnceAndIsForgottenWhenGranted
//	race at start                      processor TestHoldUntilReady, TestDropWhileUnready
//	mesh or NAT address                processor TestAssociations/sender_behind_NAT
//	loopback sender                    processor TestAssociations/loopback_sender

// asked is how a look-up ended: the pod's name, or the reason why there is none.
func asked(r podidentity.Resolver, q podidentity.Query) string {
	id, outcome := r.Resolve(q)
	if id == nil {
		return outcome.String()
	}
	return id.Name
}

// TestDeleteWithoutAnAddress: the last that is heard of a pod names the pod only,
// so that a cache by address would keep it for the address's next data.
func TestDeleteWithoutAnAddress(t *testing.T) {
	four, six := podidentity.Query{Address: netip.MustParseAddr("10.9.0.5")}, podidentity.Query{Address: netip.MustParseAddr("fd00::5")}
	old := podidentity.Record{
		Owner: "u1", Identity: podidentity.Identity{Name: "old-0", Namespace: "shop", UID: "u1"},
		Addresses: []netip.Addr{four.Address, six.Address},
	}
	next := podidentity.Record{
		Owner: "u2", Identity: podidentity.Identity{Name: "new-0", Namespace: "shop", UID: "u2"},
		Addresses: []netip.Addr{four.Address},
	}
	for name, forget := range map[string]func(*rig){
		"by the owner":                 func(r *rig) { r.a.sink.End("u1", time.Time{}, true) },
		"by a list that leaves it out": func(r *rig) { r.a.sink.Replace(nil, time.Now()) },
		"after a last state without any": func(r *rig) {
			last := old
			last.Addresses = nil
			r.a.sink.Put(last)
			r.a.sink.End("u1", time.Time{}, true)
		},
		"and without the end being told": func(r *rig) {
			last := old
			last.Addresses = nil
			r.a.sink.Put(last)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, time.Hour)
			r.a.sink.Put(old)
			held := time.Now()
			require.Equal(t, "old-0", asked(r, four))
			require.Equal(t, "old-0", asked(r, six))
			forget(r)
			require.Equal(t, "ended", asked(r, four))
			require.Equal(t, "ended", asked(r, six))
			r.a.sink.Put(next)
			require.Equal(t, "new-0", asked(r, four))
			require.Equal(t, "ended", asked(r, six))
			four.At = held
			require.Equal(t, "old-0", asked(r, four), "data from before")
			four.At = time.Time{}
		})
	}
}

// TestOneSecondaryAddressOnTwoNetworks: two pods have one address, each on a
// network of its own beside the first (Multus, two VLANs with one plan). Neither
// may be named by it; each is by whatever else is its own.
func TestOneSecondaryAddressOnTwoNetworks(t *testing.T) {
	r := newRig(t, time.Hour)
	shared := netip.MustParseAddr("192.168.50.5")
	record := func(name string, netns uint64, primary string) podidentity.Record {
		return podidentity.Record{
			Owner: name, Sandbox: name, NetNS: netns, Addresses: []netip.Addr{netip.MustParseAddr(primary), shared},
			Identity: podidentity.Identity{Name: name, Namespace: "shop"},
		}
	}
	r.a.sink.Put(record("red-0", 41, "10.9.0.5"))
	require.Equal(t, "red-0", asked(r, podidentity.Query{Address: shared}), "while only one has it")
	alone := time.Now()
	r.a.sink.Put(record("blue-0", 42, "10.9.0.6"))
	both := time.Now()

	require.Equal(t, "ambiguous", asked(r, podidentity.Query{Address: shared}))
	require.Equal(t, "red-0", asked(r, podidentity.Query{Address: shared, At: alone}), "data from before the second")
	require.Equal(t, "red-0", asked(r, podidentity.Query{Address: netip.MustParseAddr("10.9.0.5")}))
	require.Equal(t, "blue-0", asked(r, podidentity.Query{Address: netip.MustParseAddr("10.9.0.6")}))
	require.Equal(t, "red-0", asked(r, podidentity.Query{NetNS: 41, Address: shared}))
	require.Equal(t, "blue-0", asked(r, podidentity.Query{NetNS: 42, Address: shared}))
	require.Equal(t, "blue-0", asked(r, podidentity.Query{Sandbox: "blue-0", Address: shared}))
	require.Equal(t, "ambiguous", asked(r, podidentity.Query{NetNS: 43, Address: shared}), "of a namespace that nobody knows")

	r.a.sink.End("red-0", time.Time{}, true)
	require.Equal(t, "blue-0", asked(r, podidentity.Query{Address: shared}))
	require.Equal(t, "ambiguous", asked(r, podidentity.Query{Address: shared, At: both}), "data from when both had it")
}
