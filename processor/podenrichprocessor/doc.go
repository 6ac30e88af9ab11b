// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate mdatagen metadata.yaml

// Package podenrichprocessor is the processor that writes pod identities,
// which it asks a podidentity.Resolver for, on metrics, logs and traces.
//
//	resource attributes, connection ──▶ podidentity.Query ──▶ Resolver
//	                                                            │
//	k8s.pod.name, k8s.namespace.name, k8s.pod.uid, labels ◀─────┘
package podenrichprocessor
