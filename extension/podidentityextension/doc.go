// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate mdatagen metadata.yaml

// Package podidentityextension owns a node's identity cache: which pod holds an
// address, a network namespace, an HNS endpoint, a sandbox, now and at a given
// time. Its sources feed it; processors ask it through podidentity.Resolver.
package podidentityextension
