// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

// go-cni's directories; GetConfig shows them, nothing else uses them.
const (
	DefaultNetDir = "C:\\Program Files\\containerd\\cni\\conf"
	DefaultCNIDir = "C:\\Program Files\\containerd\\cni\\bin"
)
