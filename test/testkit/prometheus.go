// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A Prometheus is a running one: Debian's package, a real one.
type Prometheus struct {
	url  string
	http *http.Client
}

// StartPrometheus starts a Prometheus that scrapes targets ("host:port") once a
// second and ends with the test. command makes it run where the test's node is, and
// client reaches it there.
func StartPrometheus(t testing.TB, command func(name string, args ...string) *exec.Cmd, client *http.Client, address string, targets []string, flags ...string) *Prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("no Prometheus, test/install-packages.sh installs it: %v", err)
	}
	dir := t.TempDir()
	list, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: otelcol-retina, static_configs: [{targets: %s}]}]\n", list)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := command(path, append(flags, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--web.listen-address="+address, "--log.level=warn")...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("Prometheus's log:\n%s", LastLines(string(said), 20))
		}
	})
	p := &Prometheus{url: "http://" + address, http: client}
	Eventually(t, time.Minute, "Prometheus is ready", func() error {
		_, err := p.Get(t, "/-/ready")
		return err
	})
	return p
}

// A Sample is an element of an answer: one value of an instant vector, all of a
// range.
type Sample struct {
	Labels map[string]string
	Values []Value
}

// A Value is one of a series.
type Value struct {
	At    time.Time
	Value float64
}

// Query evaluates a PromQL expression now.
func (p *Prometheus) Query(t testing.TB, expression string) []Sample {
	t.Helper()
	return p.ask(t, "/api/v1/query", url.Values{"query": {expression}})
}

// QueryRange evaluates an expression for every second of the time up to now.
func (p *Prometheus) QueryRange(t testing.TB, expression string, since time.Duration) []Sample {
	t.Helper()
	now := time.Now()
	return p.ask(t, "/api/v1/query_range", url.Values{
		"query": {expression}, "step": {"1s"},
		"start": {strconv.FormatInt(now.Add(-since).Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
	})
}

func (p *Prometheus) ask(t testing.TB, path string, parameters url.Values) []Sample {
	t.Helper()
	body, err := p.Get(t, path+"?"+parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  *pair
				Values []pair
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	var samples []Sample
	for _, r := range answer.Data.Result {
		s := Sample{Labels: r.Metric}
		if r.Value != nil {
			r.Values = append(r.Values, *r.Value)
		}
		for _, v := range r.Values {
			s.Values = append(s.Values, Value(v))
		}
		samples = append(samples, s)
	}
	return samples
}

// pair is Prometheus's [unix seconds, "value"].
type pair Value

func (p *pair) UnmarshalJSON(b []byte) error {
	var seconds float64
	var text string
	if err := json.Unmarshal(b, &[]any{&seconds, &text}); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	*p = pair{At: time.UnixMilli(int64(seconds * 1000)), Value: value}
	return err
}

// Get returns what an HTTP path, with its parameters, answers; a status other than
// 200 is an error.
func (p *Prometheus) Get(t testing.TB, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", request.URL, response.Status, body)
	}
	return body, err
}
