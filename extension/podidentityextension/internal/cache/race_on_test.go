//go:build race

// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

const raceEnabled = true
