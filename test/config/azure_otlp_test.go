// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/entra"
)

// TestAzureOTLP has the token from a managed identity's endpoint.
func TestAzureOTLP(t *testing.T) {
	n := newNode(t)
	b := &backend{}
	tenant := newTenant()
	env := n.azure(t, tenant, b)
	delete(env, "AZURE_CLIENT_SECRET")
	identity := &http.Server{Handler: &entra.ManagedIdentity{Tenant: tenant, Header: "header"}}
	listener := listenIn(t, n.name, "127.0.0.1:41741")
	go func() { _ = identity.Serve(listener) }() // until Close
	t.Cleanup(func() { _ = identity.Close() })
	env["IDENTITY_ENDPOINT"], env["IDENTITY_HEADER"] = "http://127.0.0.1:41741/msi/token", "header"
	outlastsOutage(t, n, b, env, "otlp_http", ready+"azure-otlp.yaml")
	require.Equal(t, 2, tenant.Asked(), "one token a start")
}
