// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func sources() []Source {
	return []Source{
		{Name: "push", Age: -1, Unused: true},
		{Name: "cri", Up: true, Age: 1500 * time.Millisecond},
		{Name: "k8s", Age: 3 * time.Hour, Failures: 7, Failure: "list pods: <refused>"},
	}
}

func put(c *cache.Cache, source int, owner, name string, addrs ...string) {
	r := podidentity.Record{
		Owner: owner, Identity: podidentity.Identity{Name: name, Namespace: "shop", UID: owner}, Begin: time.Now().Add(-time.Hour),
	}
	for _, a := range addrs {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(a))
	}
	c.Put(source, r, false)
}

// newNode knows web-0 and web-1, and db-0, which is gone; 10.0.0.9 is claimed
// twice.
func newNode() (*cache.Cache, http.Handler) {
	c := cache.New(len(sources()), time.Minute, cache.SystemClock())
	c.Put(1, podidentity.Record{
		Owner: "s0", Sandbox: "s0", NetNS: 4026532001, HNSEndpoints: []string{"3EAD1B4E-6B22-4C4F-9B0D-0D0B7B2F9F01"},
		Identity:  podidentity.Identity{Name: "web-0", Namespace: "shop", UID: "u0", Labels: map[string]string{"app": "web"}},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
	}, false)
	put(c, 2, "u0", "web-0", "10.0.0.1")
	put(c, 2, "u1", "web-1", "10.0.0.2", "10.0.0.9")
	put(c, 2, "u2", "db-0", "10.0.0.3")
	put(c, 2, "u3", "db-1", "10.0.0.9")
	c.End(2, "u2", time.Now(), true)
	return c, Handler(c, sources)
}

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

func getJSON(t *testing.T, h http.Handler, target string, code int, into any) {
	t.Helper()
	w := get(t, h, target)
	require.Equal(t, code, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), into))
}

func TestIdentities(t *testing.T) {
	_, h := newNode()
	for query, tt := range map[string]struct {
		outcome string
		leases  int
		pods    string
	}{
		"":                         {pods: "db-1 web-0 web-1"},
		"?name=WEB":                {pods: "web-0 web-1"},
		"?name=web&namespace=shop": {pods: "web-0 web-1"},
		"?namespace=sho":           {},
		"?limit=2":                 {pods: "db-1 web-0"},
		"?limit=2&offset=2":        {pods: "web-1"},
		"?offset=1000000":          {},
		"?ip=10.0.0.1":             {"found", 2, "web-0"},
		"?ip=fd00::1":              {"found", 1, "web-0"},
		"?ip=10.0.0.1:8080":        {"found", 2, "web-0"},
		"?ip=[::ffff:10.0.0.1]:80": {"found", 2, "web-0"},
		"?ip=10.0.0.1/32":          {"found", 2, "web-0"},
		"?ip=10.0.0.3":             {"ended", 1, ""},
		"?ip=10.0.0.4":             {"unknown", 0, ""},
		"?ip=127.0.0.1":            {"unknown", 0, ""},
		"?ip=10.0.0.9":             {"ambiguous", 2, "db-1 web-1"},
		"?ip=10.0.0.9&name=web":    {"ambiguous", 2, "web-1"},
		"?ip=10.0.0.9&limit=1":     {"ambiguous", 1, "db-1"},
		"?uid=u1":                  {"found", 1, "web-1"},
		"?sandbox=s0":              {"found", 1, "web-0"},
		"?netns=4026532001":        {"found", 1, "web-0"},
		"?netns=1&ip=10.0.0.1":     {"mismatch", 2, "web-0"},
		"?hns_endpoint=3ead1b4e-6b22-4c4f-9b0d-0d0b7b2f9f01": {"found", 1, "web-0"},
	} {
		t.Run(query, func(t *testing.T) {
			var a answer
			getJSON(t, h, "/api/identities"+query, http.StatusOK, &a)
			require.Equal(t, tt.outcome, a.Outcome)
			require.Len(t, a.Leases, tt.leases)
			var names []string
			for _, p := range a.Pods {
				names = append(names, p.Name)
			}
			require.ElementsMatch(t, strings.Fields(tt.pods), names)
			require.NotNil(t, a.Pods, "an empty list, not null")
		})
	}
}

func TestIdentityIsToldWhole(t *testing.T) {
	c, h := newNode()
	var a answer
	getJSON(t, h, "/api/identities?ip=10.0.0.1", http.StatusOK, &a)
	require.Len(t, a.Pods, 1)
	p := a.Pods[0]
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, p.Addresses)
	require.Equal(t, "u0", p.UID)
	require.Equal(t, map[string]string{"app": "web"}, p.Labels)
	require.Equal(t, []string{"s0"}, p.Sandboxes)
	require.Equal(t, []uint64{4026532001}, p.NetNS)
	require.Equal(t, []string{"3ead1b4e-6b22-4c4f-9b0d-0d0b7b2f9f01"}, p.HNSEndpoints)
	require.True(t, p.Confirmed)
	require.Equal(t, "cri", p.Sources[0].Source)
	require.Equal(t, "k8s", p.Sources[1].Source)
	require.Less(t, p.Since, p.Sources[0].Since, "k8s has it for an hour")
	require.Equal(t, 1, a.Total)

	getJSON(t, h, "/api/identities?ip=10.0.0.3", http.StatusOK, &a)
	require.Equal(t, "db-0", a.Leases[0].Name)
	require.NotNil(t, a.Leases[0].End)

	for outcome := range podidentity.NumOutcomes {
		require.Zero(t, c.Lookups(outcome), "looking is not counted as a look-up")
	}
}

func TestUnconfirmedIsMarked(t *testing.T) {
	c, h := newNode()
	c.Restore([]cache.Entry{{Source: 1, Sure: time.Now(), Record: podidentity.Record{
		Owner: "old", Identity: podidentity.Identity{Name: "old-0", UID: "old"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")},
	}}})
	var a answer
	getJSON(t, h, "/api/identities?ip=10.0.0.7", http.StatusOK, &a)
	require.Equal(t, "found", a.Outcome)
	require.False(t, a.Pods[0].Confirmed)
	require.False(t, a.Leases[0].Confirmed)
	require.Contains(t, get(t, h, "/?q=10.0.0.7").Body.String(), "not confirmed since the restart")
}

func TestStatus(t *testing.T) {
	c, h := newNode()
	c.Resolve(podidentity.Query{Address: netip.MustParseAddr("10.0.0.1")})
	c.Resolve(podidentity.Query{Address: netip.MustParseAddr("10.0.0.9")})
	var s state
	getJSON(t, h, "/api/status", http.StatusOK, &s)
	require.Equal(t, 3, s.Pods)
	require.Equal(t, map[string]int64{"found": 1, "ambiguous": 1, "unknown": 0, "ended": 0, "mismatch": 0}, s.Lookups)
	require.Len(t, s.Sources, 2, "push is not used")
	require.Equal(t, sourceState{Source: "cri", Up: true, AgeSeconds: s.Sources[0].AgeSeconds}, s.Sources[0])
	require.InDelta(t, 1.5, *s.Sources[0].AgeSeconds, 0.001)
	require.Equal(t, "list pods: <refused>", s.Sources[1].Failure)
	require.EqualValues(t, 7, s.Sources[1].Failures)
}

func TestBadRequests(t *testing.T) {
	_, h := newNode()
	for query, want := range map[string]string{
		"ip=web":           `ip: "web": must be an address, such as 10.0.0.1`,
		"ip=":              `ip: "": must be an address`,
		"ip=10.0.0.0/24":   `ip: "10.0.0.0/24": must be an address`,
		"ip=1.1.1.1&ip=::": "ip: given 2 times",
		"limit=0":          `limit: "0": must be a number from 1 to 1000`,
		"limit=1001":       "must be a number from 1 to 1000",
		"offset=-1":        `offset: "-1": must be a number from 0`,
		"netns=x":          `netns: "x": must be the inode number`,
		"address=10.0.0.1": `"address": unknown parameter; allowed are: hns_endpoint, ip,`,
	} {
		var e struct{ Error string }
		getJSON(t, h, "/api/identities?"+query, http.StatusBadRequest, &e)
		require.Contains(t, e.Error, want)
	}
	w := get(t, h, "/?offset=x")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "must be a number")
	require.Equal(t, http.StatusNotFound, get(t, h, "/etc/passwd").Code)
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/identities", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestSearchTakesWhatPeopleType(t *testing.T) {
	_, h := newNode()
	for text, want := range map[string]string{
		"10.0.0.1":                               "<strong>found</strong>",
		" 10.0.0.9 ":                             "<strong>ambiguous</strong>",
		"10.0.0.99":                              "<strong>unknown</strong>",
		"10.0.0.1:80":                            "shop/web-0",
		"4026532001":                             "<strong>found</strong>",
		"s0":                                     "<strong>found</strong>",
		"u1":                                     "<strong>found</strong>",
		"shop/web":                               "1 to 2 of 2",
		"{3EAD1B4E-6B22-4C4F-9B0D-0D0B7B2F9F01}": "<strong>found</strong>",
		"nobody":                                 "None.",
	} {
		w := get(t, h, "/?q="+url.QueryEscape(text))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), want, text)
	}
}

// A pod's labels are its owner's: they must not become markup.
func TestHostileText(t *testing.T) {
	c, h := newNode()
	const evil = `</li><script>alert(1)</script><img src=x onerror="alert(1)">`
	c.Put(2, podidentity.Record{
		Owner: evil, Sandbox: evil, Identity: podidentity.Identity{Name: evil, Namespace: evil, UID: evil, Labels: map[string]string{evil: evil}},
	}, false)
	for _, target := range []string{"/", "/?q=" + url.QueryEscape(evil), "/?q=" + url.QueryEscape(`" autofocus onfocus="alert(1)`)} {
		w := get(t, h, target)
		require.Equal(t, http.StatusOK, w.Code)
		body := w.Body.String()
		require.NotContains(t, body, "<script")
		require.NotContains(t, body, "<img")
		require.NotContains(t, body, `" autofocus onfocus="`)
		require.NotContains(t, body, "ZgotmplZ")
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
	require.Contains(t, get(t, h, "/").Body.String(), "&lt;script&gt;")
	w := get(t, h, "/api/identities")
	require.NotContains(t, w.Body.String(), "<script")
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
}

func TestManyPodsAreShownPageByPage(t *testing.T) {
	c, h := newNode()
	for i := range 10_000 {
		put(c, 2, fmt.Sprint("many", i), fmt.Sprintf("many-%05d", i), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String())
	}
	w := get(t, h, "/?q=many")
	body := w.Body.String()
	require.Contains(t, body, "1 to 100 of 10000")
	require.Contains(t, body, "/?q=many&amp;offset=100")
	require.NotContains(t, body, ">Previous<")
	require.Less(t, len(body), 100<<10)
	body = get(t, h, "/?q=many&offset=9900").Body.String()
	require.Contains(t, body, "9901 to 10000 of 10000")
	require.Contains(t, body, "shop/many-09999")
	require.Contains(t, body, "/?q=many&amp;offset=9800")
	require.NotContains(t, body, ">Next<")
	var a answer
	getJSON(t, h, "/api/identities?limit=1000&name=many", http.StatusOK, &a)
	require.Len(t, a.Pods, 1000)
	require.Equal(t, 10_000, a.Total)
}

func TestOnlyLocalNames(t *testing.T) {
	h := OnlyLocalNames(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, code := range map[string]int{
		"localhost:8899": 200, "LOCALHOST": 200, "127.0.0.1:8899": 200, "[::1]:8899": 200, "[::1]": 200, "page.localhost:1": 200,
		"evil.example:8899": 421, "localhost.evil.example": 421, "10.0.0.1:8899": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, host)
	}
}

// How long a search in a large cluster takes, and what it allocates.
func BenchmarkSearch150000(b *testing.B) {
	c, h := newNode()
	for i := range 150_000 {
		put(c, 2, fmt.Sprint("many", i), fmt.Sprintf("many-%06d", i), netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
	}
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?q=many-1", nil))
	}
}
