// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package hns reads the counters of the pods' network endpoints on Windows:
// bytes, packets and drops from the Host Networking Service (HNS), TCP and
// access-list counters from the Virtual Filtering Platform (VFP).
//
//	         ┌ list ─▶ HCN, else HNS V1        (calls, calls_windows.go)
//	Read ────┼ ask  ─▶ HCN properties + HNS statistics, one endpoint each
//	         └ read ─▶ vfpctrl.exe             (program, vfpctrl_windows.go)
//
// One goroutine, the caller of Read, owns all state and hands single calls to a
// fixed number of workers: a call into HNS can't be cancelled, so one that hangs
// costs its worker and its endpoint, not the scrape.
//
// Everything but the calls themselves is built and tested on every platform.
package hns

import "time"

// Config is what a user can set.
type Config struct {
	VFP VFPConfig
	// Deadline bounds a Read whose context has no deadline of its own.
	Deadline time.Duration
}

// VFPConfig configures the counters that only vfpctrl.exe knows.
type VFPConfig struct {
	// Enabled says whether vfpctrl.exe is run at all.
	Enabled bool
	// Timeout is how long one run of vfpctrl.exe may take before it and its
	// children are killed.
	Timeout time.Duration
}

const (
	// hnsInFlight is the number of calls into HNS at a time. HNS works through
	// its requests one after the other and attaches pods with the same calls, so
	// more would only wait inside HNS and delay a pod's start; a few are needed
	// so that one that hangs doesn't stop the rest.
	hnsInFlight = 8
	// hnsPatience is how long a scrape waits for one call into HNS, which
	// answers in milliseconds when it is well.
	hnsPatience = 5 * time.Second
	// hnsListTries is how often a list is asked for before the V1 list is.
	hnsListTries = 2

	// vfpInFlight is the number of vfpctrl.exe at a time. A run takes about
	// 100 ms, most of it waiting: four read 250 endpoints in 6.3 s, which fits
	// into an interval of 10 s, and are the fewest that do.
	vfpInFlight = 4
	// vfpPause is how long vfpctrl.exe is left alone after it was missing or
	// refused everything.
	vfpPause = time.Minute

	// attachedEvery is how often endpoints in state "attached" are listed while
	// there are no pods among them. Pods are in state "attached-sharing" with
	// every current runtime, and one list a scrape is then enough.
	attachedEvery = time.Minute
)
