// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate mdatagen metadata.yaml

// Package applicationinsightsexporter sends metrics to Application Insights, and
// knows of each request whether it has arrived.
package applicationinsightsexporter
