// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package veth connects a network namespace to the node: a veth pair, addresses
// and routes. It keeps no state; what it made it finds again by marks on the
// links, so that the data path lives on without the process that made it.
//
//	node                                    namespace
//	wn3f…: fe80::1, 169.254.77.1 ◀──veth──▶ eth0: 10.88.0.2/32, fd00:88::2/128
//	10.88.0.2 dev wn3f…                     169.254.77.1 dev eth0
//	fd00:88::2 dev wn3f…                    default via 169.254.77.1, fe80::1
//
// A link of ours has a name and a link group of ours from the moment it exists,
// and an alias from the moment it counts (Mark). One that has only the group is
// the remnant of an attempt; one in the doomed group is to be deleted.
package veth
