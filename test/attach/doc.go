// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package attach holds the end-to-end tests of workloadnet and cniproxy: a real
// containerd, built with nothing but a replace of go-cni, whose pods get their
// network from the built otelcol-retina. Linux, as root.
//
// OTELCOL_RETINA names the binary (default ../../bin/otelcol-retina),
// ATTACH_CONTAINERD the containerd versions to run on (default "1.7 2.2"),
// CRIBED_DIR where the beds' state goes (a directory each, whose name begins so;
// default below /tmp).
package attach
