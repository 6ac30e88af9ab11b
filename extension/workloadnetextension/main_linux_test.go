// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"

// enterNode is called by the generated TestMain.
func enterNode() { nettest.EnterNode() }
