// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package cni

// go-cni's directories; GetConfig shows them, nothing else uses them.
const (
	DefaultNetDir        = "/etc/cni/net.d"
	DefaultCNIDir        = "/opt/cni/bin"
	VendorCNIDirTemplate = "%s/opt/%s/bin"
)
