// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate mdatagen metadata.yaml

// Package hnsstatsreceiver turns the network counters of a node's pod endpoints
// into metrics: one resource an endpoint, with the keys that tell it apart and
// without a pod's name, which the podenrich processor adds.
package hnsstatsreceiver
