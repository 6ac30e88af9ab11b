// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package config starts the built collector on each ready configuration, in a
// network namespace with three live pods, and looks at what arrives: at a real
// Prometheus, at other collectors, and at servers that speak Azure's protocols.
// Linux, as root; `make test-config`.
package config
