// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// startEverything brings up a node on which there is something of everything to
// see: pods with traffic, packets that the kernel drops, connections that are
// reset, an identity source that is down, an endpoint that is no pod, and, as no
// Windows is at hand, the points that hnsstats made of a simulated HNS (its
// golden file), which come in by OTLP.
func (b *bed) startEverything(t *testing.T) *prometheus {
	t.Helper()
	pods := b.runAll(t, specs(2, "web", "shop", "")...)
	b.strayEndpoint(t)
	dir := t.TempDir()
	windows := filepath.Join(dir, "windows.yaml")
	require.NoError(t, os.WriteFile(windows, []byte("pods: [{name: win-0, namespace: windows, addresses: [10.9.0.5]}]\n"), 0o600))
	_, truth := b.startRetina(t, time.Second, fmt.Sprintf(`
receivers:
  hnsstats: {netlink: {tcp: {enabled: true}}}
  otlp/windows: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}
extensions:
  file_storage: {directory: %s}
  podidentity:
    storage: file_storage
    sources:
      cri/down: {endpoint: "unix:///run/nowhere.sock"}
      statefile/windows: {path: %s, format: list}
service:
  extensions: [podidentity, health_check, pprof, file_storage]
  pipelines:
    metrics/windows:
      receivers: [otlp/windows]
      processors: [podenrich, filter/named]
      exporters: [prometheus]
`, dir, windows))
	b.awaitNames(t, truth, pods)
	prometheus := b.startPrometheus(t, "localhost:8888")
	b.trouble(t, pods[0])
	b.windowsPoints(t, "127.0.0.1:4318")
	return prometheus
}

// background runs f again every interval until the test ends, which an error of
// f fails.
func background(t *testing.T, interval time.Duration, f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
}

// trouble sends the pod requests, connections that it resets after they are
// established, and packets larger than the pod's interface takes, which the
// kernel drops on the way into it (and counts at the node's end of the veth).
func (b *bed) trouble(t *testing.T, p *cri.Pod) {
	t.Helper()
	_, err := b.runtime.StartContainer(t.Context(), p, "httpd", "/bin/httpd", "-f", "-p", "80", "-h", "/")
	require.NoError(t, err)
	ip(t, p.NetNSPath(), "link", "set", "eth0", "mtu", "1300")
	http80 := net.JoinHostPort(p.Addresses[0].String(), "80")
	client := b.httpClient()
	testkit.Eventually(t, patience, "httpd listens", func() error {
		c, err := b.DialContext(t.Context(), "tcp", http80)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	large, err := b.DialContext(t.Context(), "udp", net.JoinHostPort(p.Addresses[0].String(), "9"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = large.Close() })
	payload := make([]byte, 1400)
	background(t, 10*time.Millisecond, func(ctx context.Context) error {
		for range 10 {
			if _, err := large.Write(payload); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				return err
			}
		}
		c, err := b.DialContext(ctx, "tcp", http80)
		if err != nil {
			return err
		}
		if err := c.(*net.TCPConn).SetLinger(0); err != nil { // closes with a RST
			return err
		}
		return c.Close()
	})
	background(t, 100*time.Millisecond, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+http80+"/bin/busybox", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// strayEndpoint makes a network namespace with an address that no runtime knows.
func (b *bed) strayEndpoint(t *testing.T) {
	t.Helper()
	cmd := b.Command(context.WithoutCancel(t.Context()), "unshare", "--net", "sleep", "infinity")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	node, netns := filepath.Join(b.Dir, "ns/net"), fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
	inode := func(path string) uint64 {
		var stat syscall.Stat_t
		require.NoError(t, syscall.Stat(path, &stat))
		return stat.Ino
	}
	testkit.Eventually(t, patience, "unshare has its namespace", func() error {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		if err == nil && (filepath.Base(exe) != "sleep" || inode(netns) == inode(node)) {
			err = fmt.Errorf("still %s", exe)
		}
		return err
	})
	ip(t, node, "link", "add", "stray0", "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(cmd.Process.Pid))
	ip(t, node, "link", "set", "stray0", "up")
	ip(t, netns, "address", "add", "10.99.0.2/24", "dev", "eth0")
	ip(t, netns, "link", "set", "eth0", "up")
}

// windowsPoints sends the golden points of hnsstats on Windows by OTLP, stamped
// now and counting on.
func (b *bed) windowsPoints(t *testing.T, to string) {
	t.Helper()
	text, err := os.ReadFile("../../receiver/hnsstatsreceiver/testdata/golden/windows.yaml")
	require.NoError(t, err)
	var tree any
	require.NoError(t, yaml.Unmarshal(text, &tree))
	text, err = json.Marshal(tree) // the golden form is OTLP's JSON as YAML
	require.NoError(t, err)
	start := pcommon.NewTimestampFromTime(time.Now())
	client := b.httpClient()
	n := int64(1)
	background(t, time.Second, func(ctx context.Context) error {
		metrics, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(text)
		if err != nil {
			return err
		}
		for _, r := range metrics.ResourceMetrics().All() {
			for _, s := range r.ScopeMetrics().All() {
				for _, m := range s.Metrics().All() {
					for _, p := range m.Sum().DataPoints().All() {
						p.SetStartTimestamp(start)
						p.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
						p.SetIntValue(n * p.IntValue())
					}
				}
			}
		}
		n++
		body, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to+"/v1/metrics", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("OTLP: %s", response.Status)
		}
		return nil
	})
}
