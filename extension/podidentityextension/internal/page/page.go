// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package page shows people what the identity cache knows: a page to search by
// address or name, and the same as JSON.
//
//	GET /                 the page; ?q= searches, ?offset= turns pages
//	GET /api/identities   pods, and for a key the leases on it
//	GET /api/status       sources, and look-ups by outcome
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
)

// A Source is how one source is doing.
type Source struct {
	Name string
	// Up: its last attempt to get an answer succeeded.
	Up bool
	// Failure is why it is down, empty where it is not or has not said.
	Failure string
	// Age is the time since its last answer, negative if it never had one.
	Age      time.Duration
	Failures int64
	// Unconfirmed are the records of before the restart that it has not confirmed.
	Unconfirmed int
	// Unused: nobody has ever used it; it is not shown.
	Unused bool
}

// maxScans is how many requests may go through all pods at the same time.
const maxScans = 2

type server struct {
	cache   *cache.Cache
	sources func() []Source // by rank
	scans   chan struct{}
}

// Handler serves the page. sources returns the state of every source, in the
// order of the cache's ranks.
func Handler(c *cache.Cache, sources func() []Source) http.Handler {
	s := &server{cache: c, sources: sources, scans: make(chan struct{}, maxScans)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /api/identities", s.identities)
	mux.HandleFunc("GET /api/status", s.status)
	return secured(mux)
}

//go:embed page.css
var style string

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"age": age, "says": func(outcome string) string { return outcomeSays[outcome] },
}).Parse(pageHTML))

// policy lets the page load nothing and be framed by nobody; its style is known
// by its digest.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// OnlyLocalNames refuses requests for a host name that is not loopback's: a
// browser on this machine asks with another one when a foreign site has its name
// resolved to loopback to read from here (DNS rebinding).
func OnlyLocalNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			http.Error(w, "this page listens on loopback and answers to localhost and loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if host = strings.ToLower(strings.TrimSuffix(host, ".")); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// scan waits for its turn to go through all pods; it is false if the client left
// before.
func (s *server) scan(r *http.Request) (done func(), ok bool) {
	select {
	case s.scans <- struct{}{}:
		return func() { <-s.scans }, true
	case <-r.Context().Done():
		return nil, false
	}
}

func (s *server) identities(w http.ResponseWriter, r *http.Request) {
	ask, err := parseAsk(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	done, ok := s.scan(r)
	if !ok {
		return
	}
	defer done()
	writeJSON(w, http.StatusOK, s.answer(ask))
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.state())
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetIndent("", "  ")
	if err := lines.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the client may have left
}

// pageSize is how many pods a page shows.
const pageSize = 100

func (s *server) page(w http.ResponseWriter, r *http.Request) {
	v := view{CSS: template.CSS(style), Now: time.Now().UTC(), Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	ask, err := s.parseSearch(v.Query, r.URL.Query().Get("offset"))
	code := http.StatusOK
	if err != nil {
		v.Error, code = err.Error(), http.StatusBadRequest
	} else {
		done, ok := s.scan(r)
		if !ok {
			return
		}
		defer done()
		v.Answer = s.answer(ask)
	}
	v.State = s.state()
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, &v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the client may have left
}
