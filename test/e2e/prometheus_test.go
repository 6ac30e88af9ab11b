// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// prometheus is a running Prometheus in the node's network namespace.
type prometheus struct {
	http *http.Client
}

const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: otelcol-retina
    static_configs: [{targets: [%s]}]
`

// startPrometheus starts Debian's Prometheus, which scrapes the collector's page
// and the further targets.
func (b *bed) startPrometheus(t *testing.T, more ...string) *prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs Prometheus: test/install-packages.sh installs it")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(prometheusConfig, strings.Join(append(more, "localhost:8889"), ","))), 0o600))
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	require.NoError(t, err)
	defer log.Close()
	cmd := b.Command(context.WithoutCancel(t.Context()), path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--web.listen-address=127.0.0.1:9090", "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("Prometheus's log:\n%s", said)
		}
	})
	p := &prometheus{http: b.httpClient()}
	eventually(t, patience, "Prometheus is ready", func() error {
		_, err := get(t, p.http, "http://127.0.0.1:9090/-/ready")
		return err
	})
	return p
}

// sample is one element of an answer: the labels, and the values with their
// times (one of each for an instant vector).
type sample struct {
	labels map[string]string
	values []timedValue
}

type timedValue struct {
	at    time.Time
	value float64
}

// query evaluates a PromQL expression now.
func (p *prometheus) query(t *testing.T, expression string) []sample {
	t.Helper()
	body, err := get(t, p.http, "http://127.0.0.1:9090/api/v1/query?query="+url.QueryEscape(expression))
	require.NoError(t, err)
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  json.RawMessage
				Values []json.RawMessage
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	var samples []sample
	for _, r := range answer.Data.Result {
		s := sample{labels: r.Metric}
		if r.Value != nil {
			r.Values = append(r.Values, r.Value)
		}
		for _, raw := range r.Values {
			value, err := parseTimedValue(raw)
			require.NoError(t, err)
			s.values = append(s.values, value)
		}
		samples = append(samples, s)
	}
	return samples
}

// parseTimedValue reads Prometheus's [unix seconds, "value"].
func parseTimedValue(raw json.RawMessage) (timedValue, error) {
	var pair [2]any
	if err := json.Unmarshal(raw, &pair); err != nil {
		return timedValue{}, err
	}
	seconds, ok1 := pair[0].(float64)
	text, ok2 := pair[1].(string)
	if !ok1 || !ok2 {
		return timedValue{}, fmt.Errorf("not a sample: %s", raw)
	}
	value, err := strconv.ParseFloat(text, 64)
	return timedValue{at: time.UnixMilli(int64(seconds * 1000)), value: value}, err
}

// awaitScrape waits until every series of the collector's page has a sample that
// was scraped after t0.
func (p *prometheus) awaitScrape(t *testing.T, t0 time.Time) {
	t.Helper()
	eventually(t, patience, "Prometheus scraped", func() error {
		oldest := p.query(t, `min(timestamp(k8s_pod_network_io_bytes_total))`)
		if len(oldest) == 0 {
			return fmt.Errorf("no series")
		}
		if at := time.UnixMilli(int64(oldest[0].values[0].value * 1000)); !at.After(t0) {
			return fmt.Errorf("oldest sample is of %v", at)
		}
		return nil
	})
}
