// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the end-to-end tests: the built otelcol-retina on nodes with
// a real containerd, scraped by a real Prometheus. Linux, as root.
//
// OTELCOL_RETINA names the binary (default ../../bin/otelcol-retina),
// E2E_CONTAINERD the containerd versions to run on (default "1.6 2.2"),
// CRIBED_DIR where the beds' state goes (default a directory below /tmp).
package e2e
