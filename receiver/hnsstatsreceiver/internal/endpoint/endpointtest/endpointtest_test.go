// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package endpointtest

import (
	"testing"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

func TestSourceKeepsTheContract(t *testing.T) {
	TestContract(t, &Source{Sights: []Sight{
		{Endpoint: endpoint.Endpoint{ID: "1"}},
		{Endpoint: endpoint.Endpoint{ID: "2"}},
	}})
}
