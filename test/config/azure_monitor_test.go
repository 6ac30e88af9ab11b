// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// ingestion speaks the protocol of Application Insights' ingestion endpoint: a
// line of JSON an item, gzipped; 200 with counts, 429 and 503 to have it again.
// https://learn.microsoft.com/azure/azure-monitor/app/api-custom-events-metrics
type ingestion struct {
	t *testing.T

	mu       sync.Mutex
	statuses []int // of the next answers
	status   int   // then
	answered []int
	got      map[point]int
	items    []item
}

type item struct {
	Name, Time, IKey string
	Data             struct {
		BaseType string
		BaseData struct {
			Metrics []struct {
				Name  string
				Value float64
				Count int
			}
			Properties map[string]string
		}
	}
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func (i *ingestion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		body, err = gunzip(body)
	}
	if err != nil || r.URL.Path != "/v2.1/track" || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprint("not ours: ", r.Method, r.URL.Path, err), http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	status := i.status
	if len(i.statuses) > 0 {
		status, i.statuses = i.statuses[0], i.statuses[1:]
	}
	i.answered = append(i.answered, status)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	n := 0
	for line := range bytes.Lines(body) {
		var it item
		if err := json.Unmarshal(line, &it); err != nil {
			i.t.Errorf("%v: %s", err, line)
			continue
		}
		n++
		i.items = append(i.items, it)
		p := it.Data.BaseData.Properties
		at, err := time.Parse(time.RFC3339Nano, it.Time)
		if err != nil || len(it.Data.BaseData.Metrics) != 1 {
			i.t.Errorf("%v: %s", err, line)
			continue
		}
		m := it.Data.BaseData.Metrics[0]
		i.got[point{m.Name, p["k8s.namespace.name"], p["k8s.pod.name"], p["network.io.direction"] + p["reason"], int64(m.Value), at.UTC()}]++
	}
	fmt.Fprintf(w, `{"itemsReceived":%d,"itemsAccepted":%d,"errors":[]}`, n, n)
}

// ingest serves in the node; statuses are those of the first answers.
func (n *node) ingest(t *testing.T, statuses ...int) *ingestion {
	t.Helper()
	i := &ingestion{t: t, got: map[point]int{}, status: http.StatusOK, statuses: statuses}
	server := &http.Server{Handler: i}
	listener := listenIn(t, n.name, "127.0.0.1:8080")
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
	return i
}

// transmitted adds up the bytes that some pods sent; "" is one without a name.
func (i *ingestion) transmitted(pods ...string) (sum int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for p := range i.got {
		if p.metric == "k8s.pod.network.io" && p.direction == "transmit" && slices.Contains(pods, p.pod) {
			sum += p.value
		}
	}
	return sum
}

// TestAzureMonitor: customMetrics that add up to the kernel's counters, within the
// limits, and all of them though the endpoint refuses some, then all, and the
// collector is killed meanwhile.
func TestAzureMonitor(t *testing.T) {
	n := newNode(t)
	i := n.ingest(t, http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable)

	path, file := witness(t)
	key := "00000000-1111-2222-3333-444444444444"
	// More labels than there is room for, with long values.
	labels := make([]string, 12)
	for l := range labels {
		labels[l] = fmt.Sprintf("{key: k8s.pod.label.extra-%02d, value: %s, action: insert}", l, strings.Repeat("v", 1000))
	}
	env := map[string]string{
		"APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=" + key + ";IngestionEndpoint=http://127.0.0.1:8080/",
		"STATE_DIRECTORY":                       t.TempDir(),
	}
	configs := []string{ready + "azure-monitor.yaml", n.overlay(), "{exporters: {applicationinsights: {retry_on_failure: {initial_interval: 200ms, max_interval: 1s}}}}",
		"{processors: {resource: {attributes: [" + strings.Join(labels, ", ") + "]}}, " + file +
			", service: {pipelines: {metrics: {processors: [cumulative_to_delta, podenrich, filter/named, resource, transform/limits], exporters: [file, applicationinsights]}}}}"}
	c := n.start(t, env, configs...)

	// The first collection is where deltas begin. All that comes after it is
	// counted: nothing has been sent before.
	total := func() int64 { return i.transmitted("web-0") }
	testkit.Eventually(t, patience, "the first points", func() error {
		i.mu.Lock()
		defer i.mu.Unlock()
		if len(i.items) == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
	n.fetch(t)
	n.fetch(t)
	// 2 × 2 fetches; a frame of TCP holds 1448 bytes of them.
	testkit.Eventually(t, patience, "deltas that add up to what was fetched", func() error {
		if sum := total(); sum < 4*chunk {
			return fmt.Errorf("%d of %d bytes", sum, 4*chunk)
		}
		return nil
	})
	require.LessOrEqual(t, float64(total()), n.sent(t, pods[0]))

	everyPoint := func(before []point) {
		t.Helper()
		testkit.Eventually(t, patience, "every point", func() error {
			i.mu.Lock()
			defer i.mu.Unlock()
			for _, p := range before {
				if i.got[p] == 0 {
					return fmt.Errorf("%d points, missing: %v", len(before), p)
				}
			}
			return nil
		})
	}
	everyPoint(witnessed(t, path))

	setStatus := func(status int) int {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.status = status
		return len(i.answered)
	}
	requests := setStatus(http.StatusServiceUnavailable)
	count := len(witnessed(t, path))
	testkit.Eventually(t, patience, "points that the endpoint refuses", func() error {
		n.fetch(t)
		if now, asked := len(witnessed(t, path)), setStatus(http.StatusServiceUnavailable); now < count+60 || asked < requests+3 {
			return fmt.Errorf("%d points more, %d requests", now-count, asked-requests)
		}
		return nil
	})
	require.Regexp(t, `Will retry the request after interval.*http://127\.0\.0\.1:8080/v2\.1/track: 503 Service Unavailable`, c.readLog())
	before := witnessed(t, path)
	c.kill()
	n.start(t, env, configs...)
	setStatus(http.StatusOK)
	everyPoint(before)
	require.LessOrEqual(t, float64(total()), n.sent(t, pods[0]), "nothing is counted twice over a restart")
	t.Logf("all %d points of before the kill arrived", len(before))

	i.mu.Lock()
	defer i.mu.Unlock()
	require.Contains(t, i.answered, http.StatusTooManyRequests)
	require.Contains(t, i.answered, http.StatusServiceUnavailable)
	names := map[string]bool{}
	for _, it := range i.items {
		require.Equal(t, key, it.IKey)
		require.Equal(t, "MetricData", it.Data.BaseType)
		p := it.Data.BaseData.Properties
		names[it.Data.BaseData.Metrics[0].Name] = true
		require.NotEmpty(t, p["k8s.pod.name"], "%v", p)
		require.Equal(t, namespace, p["k8s.namespace.name"], "%v", p)
		require.NotEmpty(t, p["network.io.direction"], "%v", p)
		require.LessOrEqual(t, len(p), 10, "%v", p)
		for k, v := range p {
			require.LessOrEqual(t, len(k), 150)
			require.LessOrEqual(t, len(v), 256)
		}
	}
	for _, name := range []string{"k8s.pod.network.io", "k8s.pod.network.packet.count", "k8s.pod.network.packet.dropped"} {
		require.True(t, names[name], name)
	}
	for p, times := range i.got {
		require.Equal(t, 1, times, "sent twice: %v", p)
	}
}

// TestAzureMonitorLateNames: pods that had traffic before the collector began, and
// names that come after its first collections. What arrives is what moved since,
// and not what the kernel had counted before.
func TestAzureMonitorLateNames(t *testing.T) {
	readme, err := os.ReadFile("../../exporter/applicationinsightsexporter/README.md")
	require.NoError(t, err)
	ofReadme := regexp.MustCompile(`(?m)^    metrics: \{.*(processors: \[.*?\])`).FindSubmatch(readme)
	require.NotNil(t, ofReadme)
	for name, pipeline := range map[string]string{
		"azure-monitor.yaml":    "",
		"the exporter's README": string(ofReadme[1]),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			i := n.ingest(t)
			for range 5 {
				n.fetch(t)
			}
			named, err := os.ReadFile(n.stateFile)
			require.NoError(t, err)
			n.writeState(t, "pods: []\n")
			sent := func() (sum float64) {
				for _, p := range pods {
					sum += n.sent(t, p)
				}
				return sum
			}
			before := sent()
			path, file := witness(t)
			n.start(t, map[string]string{
				"APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=00000000-1111-2222-3333-444444444444;IngestionEndpoint=http://127.0.0.1:8080/",
				"STATE_DIRECTORY":                       t.TempDir(),
			}, ready+"azure-monitor.yaml", n.overlay(), "{"+file+", service: {pipelines: {metrics: {"+pipeline+"}, metrics/seen: {receivers: [hnsstats], exporters: [file]}}}}")
			// A collection goes through both pipelines before the next one begins.
			testkit.Eventually(t, patience, "collections without names", func() error {
				times := map[time.Time]bool{}
				for _, p := range witnessed(t, path) {
					if p.metric == "k8s.pod.network.errors" && p.direction == "receive" {
						times[p.at] = true
					}
				}
				if len(times) < 3*len(pods) {
					return fmt.Errorf("%d points", len(times))
				}
				return nil
			})
			n.writeState(t, string(named))
			testkit.Eventually(t, patience, "a name", func() error {
				i.mu.Lock()
				defer i.mu.Unlock()
				for p := range i.got {
					if p.pod == "web-0" {
						return nil
					}
				}
				return fmt.Errorf("none of %d points", len(i.got))
			})
			n.fetch(t)
			testkit.Eventually(t, patience, "what was fetched", func() error {
				if sum := i.transmitted("web-0"); sum < 2*chunk {
					return fmt.Errorf("%d of %d bytes", sum, 2*chunk)
				}
				return nil
			})
			require.LessOrEqual(t, float64(i.transmitted("web-0", "client-0", "client-1", "")), sent()-before)
		})
	}
}
