// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

const prometheusURL = "http://127.0.0.1:9090"

// prometheus runs in a node: it takes remote writes and scrapes the collector's
// usual page.
type prometheus struct {
	*testkit.Prometheus
	node *node
}

func (n *node) startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	command := func(name string, args ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=/run/netns/" + n.name, "--", name}, args...)...)
	}
	return &prometheus{testkit.StartPrometheus(t, command, n.client(), "127.0.0.1:9090", []string{"127.0.0.1:8889"}, "--web.enable-remote-write-receiver"), n}
}

// await returns the single value of an expression as soon as it is above a limit.
func (p *prometheus) await(t *testing.T, expression string, above float64) testkit.Sample {
	t.Helper()
	var found testkit.Sample
	testkit.Eventually(t, patience, expression, func() error {
		got := p.Query(t, expression)
		if len(got) != 1 || got[0].Values[0].Value <= above {
			return fmt.Errorf("%v, want one above %v", got, above)
		}
		found = got[0]
		return nil
	})
	return found
}

// awaitPods waits until the bytes that web-0 sent are there and are the kernel's.
func (p *prometheus) awaitPods(t *testing.T, metric string) testkit.Sample {
	t.Helper()
	before := time.Now()
	p.node.fetch(t)
	sent := p.node.sent(t, pods[0])
	got := p.await(t, metric+`{k8s_pod_name="web-0",k8s_namespace_name="shop",k8s_pod_ip="10.214.0.10",network_io_direction="transmit"}`, sent-1)
	require.LessOrEqual(t, got.Values[0].Value, p.node.sent(t, pods[0]))
	t.Logf("there after %v", time.Since(before).Round(time.Millisecond))
	return got
}
