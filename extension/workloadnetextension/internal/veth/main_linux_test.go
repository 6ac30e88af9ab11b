// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
)

func TestMain(m *testing.M) {
	nettest.EnterNode()
	goleak.VerifyTestMain(m)
}
