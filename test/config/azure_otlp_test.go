// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/entra"
)

// TestAzureOTLP has the token from a managed identity's endpoint: App Service's, and
// that of a machine, whose system-assigned identity is meant where none is named.
func TestAzureOTLP(t *testing.T) {
	for _, test := range []struct {
		name, clientID, listen string
		handler                func(*entra.Tenant) http.Handler
		env                    map[string]string
	}{
		{
			name: "App Service", clientID: clientID, listen: "127.0.0.1:41741",
			handler: func(tenant *entra.Tenant) http.Handler {
				return &entra.ManagedIdentity{Tenant: tenant, Header: "header"}
			},
			env: map[string]string{"IDENTITY_ENDPOINT": "http://127.0.0.1:41741/msi/token", "IDENTITY_HEADER": "header", "AZURE_CLIENT_ID": clientID},
		},
		{
			name: "machine", listen: "169.254.169.254:80",
			handler: func(tenant *entra.Tenant) http.Handler { return &entra.IMDS{Tenant: tenant} },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			ip(t, "-n", n.name, "address", "add", "169.254.169.254/32", "dev", "lo")
			b := &backend{}
			tenant := newTenant()
			tenant.ClientID = test.clientID
			env := n.azure(t, tenant, b)
			for _, variable := range []string{"AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_AUTHORITY_HOST"} {
				delete(env, variable)
			}
			maps.Copy(env, test.env)
			identity := &http.Server{Handler: test.handler(tenant)}
			listener := listenIn(t, n.name, test.listen)
			go func() { _ = identity.Serve(listener) }() // until Close
			t.Cleanup(func() { _ = identity.Close() })
			outlastsOutage(t, n, b, env, "otlp_http", ready+"azure-otlp.yaml")
			require.Equal(t, 2, tenant.Asked(), "one token a start")
		})
	}
}
