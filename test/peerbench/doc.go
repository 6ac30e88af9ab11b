// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package peerbench measures processors that add pod metadata on the same
// batches in one run: podenrich with the podidentity extension, beside the
// k8sattributes processor of opentelemetry-collector-contrib.
package peerbench
