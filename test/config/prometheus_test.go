// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// prometheus is Debian's Prometheus, running in a node: it takes remote writes and
// scrapes the collector's usual page.
type prometheus struct{ node *node }

const prometheusURL = "http://127.0.0.1:9090"

func (n *node) startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs Prometheus: test/install-packages.sh installs it")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: node, static_configs: [{targets: ['127.0.0.1:8889']}]}]\n"), 0o600))
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command("nsenter", "--net=/run/netns/"+n.name, "--", path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--web.listen-address=127.0.0.1:9090", "--web.enable-remote-write-receiver", "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("Prometheus's log:\n%s", said)
		}
	})
	eventually(t, "Prometheus is ready", func() error {
		_, err := n.get(prometheusURL + "/-/ready")
		return err
	})
	return &prometheus{n}
}

type sample struct {
	labels map[string]string
	value  float64
}

// query evaluates a PromQL expression now.
func (p *prometheus) query(t *testing.T, expression string) []sample {
	t.Helper()
	body, err := p.node.get(prometheusURL + "/api/v1/query?query=" + url.QueryEscape(expression))
	require.NoError(t, err)
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any // seconds, "value"
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	var samples []sample
	for _, r := range answer.Data.Result {
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(t, err)
		samples = append(samples, sample{r.Metric, value})
	}
	return samples
}

// await returns the single value of an expression as soon as it is above a limit.
func (p *prometheus) await(t *testing.T, expression string, above float64) sample {
	t.Helper()
	var found sample
	eventually(t, expression, func() error {
		got := p.query(t, expression)
		if len(got) != 1 || got[0].value <= above {
			return fmt.Errorf("%v, want one above %v", got, above)
		}
		found = got[0]
		return nil
	})
	return found
}

// awaitPods waits until the bytes that web-0 sent are there and are the kernel's.
func (p *prometheus) awaitPods(t *testing.T, metric string) sample {
	t.Helper()
	before := time.Now()
	p.node.fetch(t)
	sent := p.node.sent(t, pods[0])
	got := p.await(t, metric+`{k8s_pod_name="web-0",k8s_namespace_name="shop",k8s_pod_ip="10.214.0.10",network_io_direction="transmit"}`, sent-1)
	require.LessOrEqual(t, got.value, p.node.sent(t, pods[0]))
	t.Logf("there after %v", time.Since(before).Round(time.Millisecond))
	return got
}
