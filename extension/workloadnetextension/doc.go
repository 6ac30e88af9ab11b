// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate mdatagen metadata.yaml

// Package workloadnetextension is the extension that gives the node's workloads
// their network, over a gRPC service on a unix socket, and that therefore knows
// whose an address is at the moment the address exists.
//
//	client ── Attach ──▶ service ─▶ ipam ─▶ podidentity.Publisher ─▶ veth ─▶ journal
//	                        │
//	                        └─▶ feed ─▶ watchers
package workloadnetextension
