// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs tests the documents: it takes every configuration and every
// command out of them and runs it. What cannot run here is listed, each with its
// reason, in notRun, and shown by go test -v.
//
// A comment on the line before a block says what it is where the block alone
// does not:
//
//	<!-- docs-test: complete -->              a collector's configuration by itself
//	<!-- docs-test: over PATH -->             put over that file of distribution/config (default.yaml if there is no comment)
//	<!-- docs-test: under processors/podenrich -->   keys of that component
//	<!-- docs-test: list -->                  a list of pods for statefile
//	<!-- docs-test: prometheus -->            Prometheus's own configuration
//	<!-- docs-test: scrape -->                the same, for the receiver: Debian's promtool knows no Kubernetes
//	<!-- docs-test: pod --> or container      part of a Kubernetes manifest
//	<!-- docs-test: values --> or kustomization   of the chart, or of an overlay: test/packages renders them
//	<!-- docs-test: ocb --> or ocb receivers  a builder's configuration, or entries of that list
package docs
