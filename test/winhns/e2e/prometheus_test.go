// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// startPrometheus starts one that scrapes a page.
func startPrometheus(t *testing.T, page string) *testkit.Prometheus {
	t.Helper()
	target, err := url.Parse(page)
	require.NoError(t, err)
	return testkit.StartPrometheus(t, exec.Command, http.DefaultClient, freePort(t), []string{target.Host})
}

// lately returns the values of the one series that a query has in the last minutes,
// a second apart.
func lately(t *testing.T, p *testkit.Prometheus, query string) []testkit.Value {
	t.Helper()
	series := p.QueryRange(t, query, 5*time.Minute)
	if len(series) == 0 {
		return nil
	}
	require.Len(t, series, 1, "one series: the pod is the same")
	return series[0].Values
}

// point is one point of the transmitted bytes of the endpoint.
type point struct{ start, at, value int64 }

// points reads what the collector wrote as OTLP.
func points(t *testing.T, path string) []point {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var all []point
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var md struct {
			ResourceMetrics []struct {
				ScopeMetrics []struct {
					Metrics []struct {
						Name string
						Sum  struct {
							DataPoints []struct {
								StartTimeUnixNano, TimeUnixNano, AsInt string
								Attributes                             []struct{ Value struct{ StringValue string } }
							}
						}
					}
				}
			}
		}
		if json.Unmarshal(lines.Bytes(), &md) != nil {
			continue // the line that is being written
		}
		for _, rm := range md.ResourceMetrics {
			for _, m := range rm.ScopeMetrics[0].Metrics {
				if m.Name != "k8s.pod.network.io" {
					continue
				}
				for _, dp := range m.Sum.DataPoints {
					transmit := false
					for _, a := range dp.Attributes {
						transmit = transmit || a.Value.StringValue == "transmit"
					}
					if transmit {
						all = append(all, point{number(t, dp.StartTimeUnixNano), number(t, dp.TimeUnixNano), number(t, dp.AsInt)})
					}
				}
			}
		}
	}
	return all
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

// An endpoint that is made anew, with the same address and for the same pod, counts
// from zero: its points have a new start, and no rate in a real Prometheus is
// negative.
func TestRecreatedEndpoint(t *testing.T) {
	for name, change := range map[string]func(e *simhns.Endpoint){
		"with another GUID":  func(e *simhns.Endpoint) { e.ID = "1a2b3c4d-0001-4000-8000-00000000beef" },
		"with the same GUID": func(*simhns.Endpoint) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := simhns.New(t)
			e, pod := simhns.Numbered(0), simhns.NumberedSandbox(0)
			d.PutSandboxes(pod)
			d.PutAzureVNet()
			d.PutEndpoint(e)
			sent := uint64(1_000_000)
			count := func() {
				d.PutStats(e.ID, simhns.Stats{BytesSent: sent, BytesReceived: 5})
				d.PutVFP(e.Port, simhns.VFP{}, false)
			}
			count()
			startRuntime(t, d)
			c := startCollector(t, d, time.Second)
			prom := startPrometheus(t, c.page)

			const series = `k8s_pod_network_io_bytes_total{network_io_direction="transmit"}`
			seen := func(value uint64) func() bool {
				return func() bool {
					s := lately(t, prom, series)
					return len(s) > 0 && s[len(s)-1].Value == float64(value)
				}
			}
			for range 5 { // the endpoint counts
				sent += 10_000
				count()
				require.True(t, waitUntil(patient, seen(sent)), "%d in Prometheus", sent)
			}
			old := e
			change(&e)
			if e.ID != old.ID {
				d.RemoveEndpoint(old.ID)
			}
			d.PutEndpoint(e)
			for sent = 100; sent < 600; sent += 100 { // from zero
				count()
				require.True(t, waitUntil(patient, seen(sent)), "%d in Prometheus", sent)
			}

			rates := lately(t, prom, "rate("+series+"[10s])")
			require.NotEmpty(t, rates)
			positive := 0
			for _, r := range rates {
				assert.GreaterOrEqual(t, r.Value, 0.0)
				assert.Less(t, r.Value, 60_000.0, "the old counter is not counted again")
				if r.Value > 0 {
					positive++
				}
			}
			assert.Positive(t, positive)
			resets := lately(t, prom, "resets("+series+"[5m])")
			assert.InDelta(t, 1, resets[len(resets)-1].Value, 0)

			all := points(t, c.points)
			require.NotEmpty(t, all)
			renewed := 0
			for i := 1; i < len(all); i++ {
				before, p := all[i-1], all[i]
				if p.value < before.value {
					renewed++
					assert.Greater(t, p.start, before.start, "a new start time")
					assert.GreaterOrEqual(t, p.start, before.at, "no earlier than the last point of the old")
				} else {
					assert.Equal(t, before.start, p.start)
				}
				assert.LessOrEqual(t, p.start, p.at)
			}
			assert.Equal(t, 1, renewed)
			assert.NotContains(t, strings.ToLower(c.output(t)), "panic")
		})
	}
}
