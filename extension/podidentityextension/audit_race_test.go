// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package podidentityextension

func init() { raceEnabled = true }
