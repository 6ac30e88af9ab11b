// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate mdatagen metadata.yaml

// Package azureidentityextension signs an exporter's requests with a Microsoft
// Entra token: a thin layer over azidentity that caches it and says what is wrong.
package azureidentityextension
