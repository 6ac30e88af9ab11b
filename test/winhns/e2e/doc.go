// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the built otelcol-retina.exe under Wine, against the SIMULATED
// HNS, vfpctrl.exe and container runtime of test/winhns. What it proves is of the
// program, not of Windows. See the README there for how to run it.
package e2e
