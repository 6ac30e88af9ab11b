// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build audit && race

package podidentityextension

func init() { raceEnabled = true }
