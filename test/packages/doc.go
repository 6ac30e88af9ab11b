// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package packages tests what `make packages` makes and what is installed in a
// cluster: the deb under a real systemd, the rpm, the archives, the image in a
// real containerd, and the manifests and the chart against a real kube-apiserver.
// `make test-packages` builds what it needs.
package packages
