// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package netnstest makes network namespaces that play a node and its pods, for
// tests and benchmarks that are run as root on Linux.
package netnstest
