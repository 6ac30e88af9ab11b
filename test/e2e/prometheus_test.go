// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// prometheus runs in the node's network namespace.
type prometheus struct{ *testkit.Prometheus }

// startPrometheus starts one that scrapes the collector's page and the further
// targets.
func (b *bed) startPrometheus(t *testing.T, more ...string) *prometheus {
	t.Helper()
	command := func(name string, args ...string) *exec.Cmd {
		return b.Command(context.WithoutCancel(t.Context()), name, args...)
	}
	return &prometheus{testkit.StartPrometheus(t, command, b.httpClient(), "127.0.0.1:9090", append(more, "localhost:8889"))}
}

// awaitScrape waits until every series of the collector's page has a sample that
// was scraped after t0.
func (p *prometheus) awaitScrape(t *testing.T, t0 time.Time) {
	t.Helper()
	testkit.Eventually(t, patience, "Prometheus scraped", func() error {
		oldest := p.Query(t, `min(timestamp(k8s_pod_network_io_bytes_total))`)
		if len(oldest) == 0 {
			return fmt.Errorf("no series")
		}
		if at := time.UnixMilli(int64(oldest[0].Values[0].Value * 1000)); !at.After(t0) {
			return fmt.Errorf("oldest sample is of %v", at)
		}
		return nil
	})
}
