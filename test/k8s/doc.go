// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package k8s tests the podidentity extension's k8s source, as a user configures
// it, against a real Kubernetes API server (see bed). The tests play the
// kubelet: they create, bind, report and delete pods.
package k8s
