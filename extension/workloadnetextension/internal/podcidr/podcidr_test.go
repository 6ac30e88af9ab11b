// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podcidr

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sample(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

func TestParse(t *testing.T) {
	prefixes, err := parse(sample(t, "node.json"))
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}, prefixes)

	_, err = parse(sample(t, "node-without.json"))
	assert.ErrorIs(t, err, ErrNone)
	_, err = parse([]byte(`{"spec":{"podCIDRs":["10.244.1.0"]}}`))
	assert.ErrorContains(t, err, "spec.podCIDRs: ")
	_, err = parse([]byte(`<html>`))
	assert.Error(t, err)
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f, "node.json"))
	f.Add(sample(f, "node-without.json"))
	f.Add([]byte(`{"spec":{"podCIDRs":["::/0",""]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		prefixes, err := parse(b)
		if (err == nil) != (len(prefixes) > 0) {
			t.Fatalf("%v, %v", prefixes, err)
		}
		for _, p := range prefixes {
			if !p.IsValid() || p != p.Masked() {
				t.Fatalf("%v", p)
			}
		}
	})
}

// client returns a client of a fake API server; test/k8s has the real one.
func client(t *testing.T, handler http.HandlerFunc) *Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL}, "node-1")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestGet(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "GET /api/v1/nodes/node-1", r.Method+" "+r.URL.Path)
		assert.Contains(t, r.Header.Get("Accept"), "application/json")
		_, _ = w.Write(sample(t, "node.json"))
	})
	prefixes, err := c.Get(context.Background())
	require.NoError(t, err)
	assert.Len(t, prefixes, 2)
}

func TestGetForbidden(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nodes \"node-1\" is forbidden"}`))
	})
	_, err := c.Get(context.Background())
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	assert.EqualError(t, err, `get node "node-1": nodes "node-1" is forbidden`)
}

func TestGetNoNode(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, body string
		want                    bool
	}{
		{"the API server says so", "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"nodes \"node-1\" not found","details":{"name":"node-1","kind":"nodes"}}`, true},
		{"something else answers", "text/html", "<html>no such page</html>", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(tt.body))
			})
			_, err := c.Get(context.Background())
			require.Error(t, err)
			assert.Equal(t, tt.want, errors.Is(err, ErrNoNode), "%v", err)
		})
	}
}

func TestAwait(t *testing.T) {
	var requests atomic.Int32
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		switch requests.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			_, _ = w.Write(sample(t, "node-without.json"))
		default:
			_, _ = w.Write(sample(t, "node.json"))
		}
	})
	var failures []error
	prefixes, err := c.Await(context.Background(), func(err error) { failures = append(failures, err) })
	require.NoError(t, err)
	assert.Len(t, prefixes, 2)
	require.Len(t, failures, 2)
	assert.ErrorIs(t, failures[1], ErrNone)
	assert.EqualError(t, failures[1], `node "node-1": it has no podCIDR yet`)
}

func TestAwaitEnds(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	ctx, cancel := context.WithCancel(context.Background())
	begin := time.Now()
	_, err := c.Await(ctx, func(error) { cancel() })
	assert.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(begin), longestPause)
}

func TestNewClientFails(t *testing.T) {
	_, err := NewClient(&rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nonexistent"}}, "node-1")
	assert.ErrorContains(t, err, "/nonexistent")
}
