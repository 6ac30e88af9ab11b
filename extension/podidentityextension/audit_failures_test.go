// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

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
//	delete without an address          k8s TestTombstoneInPlaceOfADelete
//	reactivated id                     cache TestDeadSandbox, TestLateEventsOfAReusedOwnerName
//	host network, by address           cache TestHostNetworkPodOwnsNoAddress
//	host network, by UID               processor TestResource/host-network_pod_by_UID
//	second family                      cache TestEveryKeyOfAPodResolves,
//	                                   processor TestResource/second_family
//	IPv4-mapped, zone and port forms   processor internal/address TestParse
//	one address on two networks        processor TestResource/two_pods_claim_the_address
//	API server restart                 k8s TestUnreachableServerIsReportedOnceAndOnReturn
//	log storm when refused by RBAC     k8s TestRefusalNamesTheVerbOnceAndIsForgottenWhenGranted
//	race at start                      processor TestHoldUntilReady, TestDropWhileUnready
//	mesh or NAT address                processor TestAssociations/sender_behind_NAT
//	loopback sender                    processor TestAssociations/loopback_sender
