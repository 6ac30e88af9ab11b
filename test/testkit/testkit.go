// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit is what the test modules have in common: the program under test,
// waiting for a condition, and a real Prometheus to ask. It needs nothing but the
// standard library, so that a module that uses it takes on no dependencies.
package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Collector returns the absolute path of bin/otelcol-retina below root, or of what
// $OTELCOL_RETINA names.
func Collector(t testing.TB, root string) string {
	t.Helper()
	return Binary(t, "OTELCOL_RETINA", filepath.Join(root, "bin/otelcol-retina"), "otelcol-retina")
}

// Binary returns the absolute path of a program under test: what the environment
// variable names, else path, which make's target builds.
func Binary(t testing.TB, variable, path, target string) string {
	t.Helper()
	if named := os.Getenv(variable); named != "" {
		path = named
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("no program to test, run make %s or set %s: %v", target, variable, err)
	}
	return path
}

// Eventually calls condition until it returns nil, and fails with its last error
// when that takes too long.
func Eventually(t testing.TB, within time.Duration, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", within, what, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("test ended while waiting: %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// LastLines returns the last n lines of a text.
func LastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
