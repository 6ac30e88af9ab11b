// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

const (
	// requestTimeout bounds a request for a token, azidentity's retries included.
	requestTimeout = 30 * time.Second
	// refreshBefore is how long before its end a token is replaced that says
	// nothing about that itself; azidentity's own cache gives none later, either.
	refreshBefore = 5 * time.Minute
	// retryPause is the least time from a failure to the next request.
	retryPause = 10 * time.Second
)

// tokenCache keeps one token and replaces it before it ends. azidentity caches,
// too, but its credentials hold a mutex during the request, so that a slow answer
// would stop every exporter, past their deadlines. Here a token that is still good
// is given out without waiting, and at most one request runs.
type tokenCache struct {
	request func(context.Context) (azcore.AccessToken, error)
	// report is called after every request, never twice at a time.
	report func(error)
	now    func() time.Time

	current atomic.Pointer[cachedToken]

	mu      sync.Mutex
	running *tokenRequest // nil if none
	failed  error         // of the last request
	retryAt time.Time     // after a failure
	closed  bool
	cancel  context.CancelFunc
	ctx     context.Context
	ended   sync.WaitGroup
}

type cachedToken struct {
	azcore.AccessToken
	refreshAt time.Time
}

type tokenRequest struct {
	done  chan struct{} // closed when the rest is set
	token azcore.AccessToken
	err   error
}

func newTokenCache(request func(context.Context) (azcore.AccessToken, error), report func(error)) *tokenCache {
	c := &tokenCache{request: request, report: report, now: time.Now}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// token returns a token that is good now. It waits, at most as long as ctx, only
// if there is none. It is safe for concurrent use.
func (c *tokenCache) token(ctx context.Context) (azcore.AccessToken, error) {
	now := c.now()
	cached := c.current.Load()
	if cached != nil && now.Before(cached.refreshAt) {
		return cached.AccessToken, nil
	}
	running, err := c.start(now)
	if cached != nil && now.Before(cached.ExpiresOn) {
		return cached.AccessToken, nil
	}
	if err != nil {
		return azcore.AccessToken{}, err
	}
	select {
	case <-running.done:
		return running.token, running.err
	case <-ctx.Done():
		return azcore.AccessToken{}, ctx.Err()
	}
}

// start returns the request that runs, a new one if none does, or the last one's
// error if it is too early for another.
func (c *tokenCache) start(now time.Time) (*tokenRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running != nil:
		return c.running, nil
	case c.closed:
		return nil, context.Canceled
	case now.Before(c.retryAt):
		return nil, c.failed
	}
	// Another caller's request may have ended since our look at the cache.
	if cached := c.current.Load(); cached != nil && now.Before(cached.refreshAt) {
		r := &tokenRequest{done: make(chan struct{}), token: cached.AccessToken}
		close(r.done)
		return r, nil
	}
	r := &tokenRequest{done: make(chan struct{})}
	c.running = r
	c.ended.Add(1)
	go c.run(r)
	return r, nil
}

func (c *tokenCache) run(r *tokenRequest) {
	defer c.ended.Done()
	ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
	defer cancel()
	r.token, r.err = c.request(ctx)
	now := c.now()
	if c.ctx.Err() == nil {
		c.report(r.err)
	}
	c.mu.Lock()
	c.running = nil
	if r.err != nil {
		c.failed, c.retryAt = r.err, now.Add(retryPause)
	} else {
		c.failed, c.retryAt = nil, time.Time{}
		c.current.Store(&cachedToken{AccessToken: r.token, refreshAt: refreshTime(r.token, now)})
	}
	c.mu.Unlock()
	close(r.done)
}

// refreshTime is what the token says itself, or some minutes before its end; for
// a short-lived one, when half of its time is over.
func refreshTime(token azcore.AccessToken, now time.Time) time.Time {
	if token.RefreshOn.After(now) && token.RefreshOn.Before(token.ExpiresOn) {
		return token.RefreshOn
	}
	return token.ExpiresOn.Add(-min(refreshBefore, token.ExpiresOn.Sub(now)/2))
}

// close ends the request that runs; later calls to token find what is cached.
func (c *tokenCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.ended.Wait()
}
