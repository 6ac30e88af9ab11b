// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpointtest has a Source for tests and the contract that every
// Source keeps.
package endpointtest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// Sight is an endpoint and its counters at one moment.
type Sight struct {
	endpoint.Endpoint
	endpoint.Counters
}

// Source is a Source that shows what the test gives it.
type Source struct {
	// Sights are what Read visits.
	Sights []Sight
	// StartErr and ReadErr are what Start and Read return.
	StartErr, ReadErr error

	started bool
}

var _ endpoint.Source = (*Source)(nil)

// Start implements endpoint.Source.
func (s *Source) Start(context.Context) error {
	s.started = s.StartErr == nil
	return s.StartErr
}

// Read implements endpoint.Source. Like a real one, it visits with memory that
// it uses again.
func (s *Source) Read(_ context.Context, visit func(*endpoint.Endpoint, *endpoint.Counters)) error {
	if !s.started {
		return errors.New("the source is not started")
	}
	var counters endpoint.Counters
	for i := range s.Sights {
		e := s.Sights[i].Endpoint
		counters = s.Sights[i].Counters
		visit(&e, &counters)
	}
	return s.ReadErr
}

// Close implements endpoint.Source.
func (s *Source) Close() error {
	s.started = false
	return nil
}

// TestContract checks what endpoint.Source promises, on a source that is not
// started and will see at least one endpoint.
func TestContract(t *testing.T, s endpoint.Source) {
	ctx := context.Background()
	none := func(*endpoint.Endpoint, *endpoint.Counters) { t.Error("visited without Start") }
	require.NoError(t, s.Close(), "Close without Start")
	require.Error(t, s.Read(ctx, none), "Read without Start")

	require.NoError(t, s.Start(ctx))
	ids := map[string]endpoint.Endpoint{}
	require.NoError(t, s.Read(ctx, func(e *endpoint.Endpoint, c *endpoint.Counters) {
		require.NotEmpty(t, e.ID)
		require.NotContains(t, ids, e.ID, "visited twice")
		require.NotNil(t, c)
		ids[e.ID] = *e
	}))
	require.NotEmpty(t, ids)
	require.NoError(t, s.Read(ctx, func(e *endpoint.Endpoint, _ *endpoint.Counters) {
		require.Equal(t, ids[e.ID], *e, "an endpoint stays what it is")
		delete(ids, e.ID)
	}))
	require.Empty(t, ids, "every endpoint is visited every time")

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "Close twice")
	require.Error(t, s.Read(ctx, none), "Read after Close")
}
