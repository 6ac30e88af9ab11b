// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// chromium runs a headless Chromium of its own profile and returns what it
// prints.
func chromium(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium: apt-get install chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server",
		"--user-data-dir=" + t.TempDir(),
	}, args...)...)
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}

var tags = regexp.MustCompile(`<[^>]*>`)

// rows returns the text of the rows of the table with an id, cells parted by
// spaces, from a DOM as Chromium writes it.
func rows(dom, id string) (rows []string) {
	_, table, _ := strings.Cut(dom, `<table id="`+id+`">`)
	_, table, _ = strings.Cut(table, "<tbody>")
	table, _, _ = strings.Cut(table, "</tbody>")
	for row := range strings.SplitSeq(table, "</tr>") {
		if text := strings.Join(strings.Fields(tags.ReplaceAllString(row, " ")), " "); text != "" {
			rows = append(rows, text)
		}
	}
	return rows
}

// pageOfShop serves a page of 250 pods, one of them with labels that are markup.
func pageOfShop(t *testing.T) string {
	e, err := withPage(t, "localhost:0", func(cfg *Config) { cfg.GracePeriod = time.Hour }) // Chromium may start slowly
	require.NoError(t, err)
	for i := range 250 {
		require.NoError(t, e.Publish(podidentity.Record{
			Owner: fmt.Sprintf("sandbox-%d", i), Sandbox: fmt.Sprintf("sandbox-%d", i), NetNS: uint64(4026532001 + i),
			Identity: podidentity.Identity{
				Name: fmt.Sprintf("web-%03d", i), Namespace: "shop", UID: fmt.Sprintf("uid-%d", i), Labels: map[string]string{"app": "web"},
			},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1))},
			Begin:     time.Now().Add(-3 * time.Hour),
		}))
	}
	require.NoError(t, e.Publish(podidentity.Record{Owner: "evil", Sandbox: "evil", Begin: time.Now().Add(-3 * time.Hour), Identity: podidentity.Identity{
		Name: "evil", Namespace: "shop", Labels: map[string]string{"x": `<script>document.title = "taken"</script>`},
	}}))
	e.End("sandbox-7", time.Time{})
	return "http://" + e.page.addr.String()
}

func TestPageInChromium(t *testing.T) {
	url := pageOfShop(t)

	dom := chromium(t, "--dump-dom", url+"/?q=10.0.0.5")
	require.Contains(t, dom, "<strong>found</strong>")
	leases, pods := rows(dom, "leases"), rows(dom, "pods")
	require.Len(t, leases, 1)
	require.Regexp(t, `^shop/web-005 uid-5 push \S+ \S+ now$`, leases[0])
	require.Len(t, pods, 1)
	require.Regexp(t, `^shop/web-005 app=web 10\.0\.0\.5 fd00::6 uid uid-5 sandbox sandbox-5 netns 4026532006 push 3 h \d+ min$`, pods[0])

	dom = chromium(t, "--dump-dom", url+"/?q=10.0.0.7")
	require.Contains(t, dom, "<strong>ended</strong>")
	require.Len(t, rows(dom, "leases"), 1)
	require.Empty(t, rows(dom, "pods"))

	dom = chromium(t, "--dump-dom", url+"/?q=WEB-01")
	require.Contains(t, dom, "1 to 10 of 10")
	require.Len(t, rows(dom, "pods"), 10)

	dom = chromium(t, "--dump-dom", url+"/?q=evil")
	require.NotContains(t, dom, "<title>taken")
	pods = rows(dom, "pods")
	require.Len(t, pods, 1)
	require.Regexp(t, `^shop/evil x=&lt;script&gt;document\.title = "taken"&lt;/script&gt; sandbox evil push 3 h \d+ min$`, pods[0])

	dom = chromium(t, "--dump-dom", url+"/?offset=200")
	require.Contains(t, dom, "201 to 250 of 250")
	require.Len(t, rows(dom, "pods"), 50)
	require.Equal(t, []string{"ambiguous 0", "ended 0", "found 0", "mismatch 0", "unknown 0"}, rows(dom, "lookups"))
	require.Regexp(t, `^push up \d+ (s|min) ago 0$`, rows(dom, "sources")[0])
}

// Chromium logs it when the page asks for something that its own policy refuses,
// such as a style that does not have the digest.
func TestPageKeepsItsOwnPolicy(t *testing.T) {
	url := pageOfShop(t)
	shot := filepath.Join(t.TempDir(), "page.png")
	if dir := os.Getenv("SCREENSHOT_DIR"); dir != "" {
		shot = filepath.Join(dir, "page.png")
	}
	log := filepath.Join(t.TempDir(), "log")
	chromium(t, "--enable-logging", "--v=0", "--log-file="+log, "--window-size=1400,1000", "--screenshot="+shot, url+"/?q=web-01")
	logged, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NotContains(t, string(logged), "Content Security Policy")
	png, err := os.ReadFile(shot)
	require.NoError(t, err)
	require.Greater(t, len(png), 10_000)
}
