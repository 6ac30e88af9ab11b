// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"net/http"
)

// An attempt is one call of the API, as the HTTP transport sees it. client-go
// repeats a request whose connection breaks ten times, a second apart, before it
// says so, and in place of a watch it then returns an empty one without an error
// (rest.Request.Watch).
type attempt struct {
	failed func(error) // called at each request that got no answer
	err    error       // why the last request got no answer, nil if it did
}

type attemptKey struct{}

// attempting returns a context for one call.
func attempting(ctx context.Context, failed func(error)) (context.Context, *attempt) {
	a := &attempt{failed: failed}
	return context.WithValue(ctx, attemptKey{}, a), a
}

// attemptTransport tells attempts how their requests went.
type attemptTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t attemptTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if a, ok := req.Context().Value(attemptKey{}).(*attempt); ok {
		if a.err = err; err != nil {
			a.failed(err)
		}
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport whose idle connections
// it is asked to close.
func (t attemptTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
