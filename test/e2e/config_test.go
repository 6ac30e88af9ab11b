// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// defaultConfig is the pipeline that the distribution ships; the tests put their
// own over it.
const defaultConfig = "../../distribution/config/default.yaml"

// overlay is what the tests add to the default pipeline: short intervals, the
// health check and pprof, and beside the Prometheus page a second pipeline from
// the same receiver that writes every single point, keys kept, into a file.
func overlay(interval time.Duration, file string) string {
	return fmt.Sprintf(`
receivers:
  hnsstats: {collection_interval: %[1]v}
processors:
  podenrich/truth: {identity: podidentity, keep_keys: true}
exporters:
  prometheus: {metric_expiration: %[3]v}
  file/truth: {path: %[2]s, flush_interval: 20ms}
extensions:
  health_check: {endpoint: "127.0.0.1:13133"}
  pprof: {endpoint: "127.0.0.1:1777"}
service:
  extensions: [podidentity, health_check, pprof]
  pipelines:
    metrics/truth:
      receivers: [hnsstats]
      processors: [podenrich/truth]
      exporters: [file/truth]
`, interval, file, expiration(interval))
}

// expiration is how long the Prometheus page goes on to show a series that has no
// new points: as many collections as in the default pipeline, but no less than
// what a busy machine may need for one.
func expiration(interval time.Duration) time.Duration {
	return max(interval*5/2, time.Second)
}

// startRetina starts the collector with the default pipeline and the overlay,
// and further configurations over them.
func (b *bed) startRetina(t *testing.T, interval time.Duration, more ...string) (*collector, *sink) {
	t.Helper()
	s := &sink{path: filepath.Join(t.TempDir(), "points.json")}
	config, err := filepath.Abs(defaultConfig)
	if err != nil {
		t.Fatal(err)
	}
	return b.startCollector(t, append([]string{config, overlay(interval, s.path)}, more...)...), s
}
