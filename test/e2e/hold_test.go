// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestStopWhileHolding stops the collector while podenrich holds what hnsstats
// has scraped and what an application has sent: it must end at once, and the
// application must hear that it has to send again.
func TestStopWhileHolding(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint := free.Addr().String()
	require.NoError(t, free.Close())
	config := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
receivers:
  hnsstats: {collection_interval: 1s}
  otlp: {protocols: {http: {endpoint: %q}}}
processors:
  podenrich: {identity: podidentity, on_unready: hold}
exporters:
  nop:
extensions:
  podidentity:
    startup_timeout: 1h
    sources: {cri: {endpoint: "unix://%s/absent.sock"}}
service:
  extensions: [podidentity]
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [hnsstats], processors: [podenrich], exporters: [nop]}
    logs: {receivers: [otlp], processors: [podenrich], exporters: [nop]}
`, endpoint, dir), 0o600))

	// Its end kills a collector that did not end by itself.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log, err := os.Create(filepath.Join(dir, "collector.log"))
	require.NoError(t, err)
	defer log.Close()
	said := func() string {
		b, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		return string(b)
	}
	cmd := exec.CommandContext(ctx, testkit.Collector(t, "../.."), "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() {
		cancel()
		if t.Failed() {
			t.Logf("the collector's log, last lines:\n%s", testkit.LastLines(said(), 20))
		}
	}()

	held := func(signals ...string) {
		testkit.Eventually(t, patience, fmt.Sprintf("data is held: %v", signals), func() error {
			for _, signal := range signals {
				if !holds(said(), signal) {
					return fmt.Errorf("no %s are held", signal)
				}
			}
			return nil
		})
	}
	held("metrics") // the receivers have started
	answer := make(chan string, 1)
	go func() {
		client := &http.Client{Timeout: 2 * patience}
		response, err := client.Post("http://"+endpoint+"/v1/logs", "application/json",
			strings.NewReader(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}`))
		if err != nil {
			answer <- err.Error()
			return
		}
		_ = response.Body.Close()
		answer <- response.Status
	}()
	held("metrics", "logs")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-exited:
		require.NoError(t, err)
		assert.Equal(t, "503 Service Unavailable", <-answer)
	case <-time.After(patience):
		require.FailNow(t, "the collector did not end by itself")
	}
}

// holds reports whether podenrich has logged that data of a signal comes before
// the identities.
func holds(log, signal string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "The identities are not ready yet") &&
			strings.Contains(line, fmt.Sprintf("%q: %q", "otelcol.signal", signal)) {
			return true
		}
	}
	return false
}
