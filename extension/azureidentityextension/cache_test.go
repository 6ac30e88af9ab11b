// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/stretchr/testify/require"
)

// issuer gives out numbered tokens; the tests run on synctest's clock.
type issuer struct {
	lifetime, refresh, delay time.Duration
	err                      error
	asked                    int
	reports                  []error
}

func (i *issuer) cache() *tokenCache {
	return newTokenCache(func(ctx context.Context) (azcore.AccessToken, error) {
		i.asked++
		n := i.asked
		select {
		case <-time.After(i.delay):
		case <-ctx.Done():
			return azcore.AccessToken{}, ctx.Err()
		}
		if i.err != nil {
			return azcore.AccessToken{}, i.err
		}
		token := azcore.AccessToken{Token: fmt.Sprint("token-", n), ExpiresOn: time.Now().Add(i.lifetime)}
		if i.refresh > 0 {
			token.RefreshOn = time.Now().Add(i.refresh)
		}
		return token, nil
	}, func(err error) { i.reports = append(i.reports, err) })
}

func get(t *testing.T, c *tokenCache) string {
	t.Helper()
	token, err := c.token(t.Context())
	require.NoError(t, err)
	require.True(t, time.Now().Before(token.ExpiresOn), "given out after its end")
	return token.Token
}

func TestTokenIsReplacedBeforeItsEnd(t *testing.T) {
	for _, test := range []struct {
		name              string
		lifetime, refresh time.Duration
		at                time.Duration // when it is replaced
	}{
		{name: "says nothing", lifetime: time.Hour, at: 55 * time.Minute},
		{name: "says when", lifetime: 24 * time.Hour, refresh: 12 * time.Hour, at: 12 * time.Hour},
		{name: "says a time after its end", lifetime: time.Hour, refresh: 2 * time.Hour, at: 55 * time.Minute},
		{name: "short", lifetime: 4 * time.Minute, at: 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{lifetime: test.lifetime, refresh: test.refresh}
				c := i.cache()
				defer c.close()
				require.Equal(t, "token-1", get(t, c))
				time.Sleep(test.at - time.Second)
				require.Equal(t, "token-1", get(t, c))
				synctest.Wait()
				require.Equal(t, 1, i.asked)
				time.Sleep(time.Second)
				require.Equal(t, "token-1", get(t, c), "nobody waits for the new one")
				synctest.Wait()
				require.Equal(t, "token-2", get(t, c))
				require.Equal(t, 2, i.asked)
			})
		})
	}
}

func TestOneRequestForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{lifetime: time.Hour, delay: 3 * time.Second}
		c := i.cache()
		defer c.close()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { require.Equal(t, "token-1", get(t, c)) })
		}
		all.Wait()
		require.Equal(t, 1, i.asked)
	})
}

func TestCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{lifetime: time.Hour, delay: 20 * time.Second}
		c := i.cache()
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.token(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(began))
		// The request has gone on: its answer is the next caller's.
		require.Equal(t, "token-1", get(t, c))
		require.Equal(t, 20*time.Second, time.Since(began))
	})
}

func TestRequestsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{lifetime: time.Hour, delay: time.Hour}
		c := i.cache()
		defer c.close()
		began := time.Now()
		_, err := c.token(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, requestTimeout, time.Since(began))
	})
}

func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{lifetime: time.Hour, err: errors.New("no")}
		c := i.cache()
		defer c.close()
		for range 20 { // exporters that retry don't flood the endpoint
			_, err := c.token(t.Context())
			require.EqualError(t, err, "no")
		}
		require.Equal(t, 1, i.asked)
		time.Sleep(retryPause)
		i.err = nil
		require.Equal(t, "token-2", get(t, c))

		// While a token is good, failing to replace it harms nobody.
		i.err = errors.New("no")
		time.Sleep(56 * time.Minute)
		require.Equal(t, "token-2", get(t, c))
		synctest.Wait()
		require.Equal(t, "token-2", get(t, c))
		require.Equal(t, 3, i.asked)
		time.Sleep(4 * time.Minute)
		_, err := c.token(t.Context())
		require.EqualError(t, err, "no")
		require.Equal(t, []error{errors.New("no"), nil, errors.New("no"), errors.New("no")}, i.reports)
	})
}

func TestCloseEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{lifetime: time.Hour, delay: 20 * time.Second}
		c := i.cache()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			c.close()
		}()
		_, err := c.token(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(began))
		_, err = c.token(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, i.reports, "ending is no failure")
		c.close()
	})
}

func BenchmarkToken(b *testing.B) {
	i := &issuer{lifetime: time.Hour}
	c := i.cache()
	defer c.close()
	for b.Loop() {
		if _, err := c.token(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
