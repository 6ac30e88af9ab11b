// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/json"
	"testing"
	"time"
)

func TestPair(t *testing.T) {
	var p pair
	if err := json.Unmarshal([]byte(`[1700000000.25, "1.5"]`), &p); err != nil {
		t.Fatal(err)
	}
	if want := (pair{At: time.UnixMilli(1700000000250), Value: 1.5}); p != want {
		t.Fatalf("%v, want %v", p, want)
	}
	for _, wrong := range []string{`["x", "1"]`, `[1, 2]`, `[1, "x"]`, `{}`, `[1]`} {
		if err := json.Unmarshal([]byte(wrong), &p); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

func TestLastLines(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "c", 2: "b\nc", 9: "a\nb\nc"} {
		if got := LastLines("a\nb\nc\n", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestCheckPages(t *testing.T) {
	config := func(expiration string) []byte {
		return []byte(`{"receivers": {"hnsstats": {"collection_interval": 10000000000}, "otlp": {}},
			"exporters": {"prometheus/pods": {"metric_expiration": ` + expiration + `}, "otlp_grpc": {}},
			"service": {"pipelines": {"metrics": {"receivers": ["otlp", "hnsstats"], "exporters": ["otlp_grpc", "prometheus/pods"]}}}}`)
	}
	if err := CheckPages(config("20000000001")); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"20000000000", `"20s"`} {
		if err := CheckPages(config(wrong)); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
