// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package netlinkstats is the Linux source of pod endpoints: it reads the
// counters of every pod interface of the node from the kernel, by netlink.
//
//	notifications ──▶ monitor ──▶ log ──▶ inventory ◀── links, addresses (on change)
//	                                          │
//	RTM_GETSTATS, one dump a Read ──────────▶ join ──▶ endpoints, counters
//
// A Read enters no namespace. Which links are the host ends of pods, and what
// the pods call them, is kept up to date by what the kernel announces; only
// what has changed is asked for again, through the id that the kernel gives
// another network namespace (nsid).
package netlinkstats
