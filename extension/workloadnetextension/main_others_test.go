// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workloadnetextension

func enterNode() {}
