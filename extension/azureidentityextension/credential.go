// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// authorityEnv names another authority than the public cloud's; azidentity reads
// it, too.
const authorityEnv = "AZURE_AUTHORITY_HOST"

// retryOptions keep azidentity's own retries within the deadline of a request for
// a token. What still fails is tried again later.
var retryOptions = policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Second, TryTimeout: 10 * time.Second}

// newCredential returns the configured method, and how a message names it. A nil
// transport is azcore's own.
func newCredential(cfg *Config, transport policy.Transporter) (azcore.TokenCredential, string, error) {
	client := policy.ClientOptions{Transport: transport, Retry: retryOptions}
	authority := os.Getenv(authorityEnv)
	// An authority that the operator names is taken at their word: the public
	// cloud, which azidentity would ask about it, does not know private ones.
	named := authority != ""
	if !named {
		authority = "https://login.microsoftonline.com/"
	}
	var (
		cred azcore.TokenCredential
		name string
		err  error
	)
	switch {
	case cfg.ManagedIdentity != nil:
		name = "managed_identity: system-assigned, from " + managedIdentityEndpoint()
		options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: client}
		if id := cfg.ManagedIdentity.ClientID; id != "" {
			name = fmt.Sprintf("managed_identity: client %q, from %s", id, managedIdentityEndpoint())
			options.ID = azidentity.ClientID(id)
		}
		cred, err = azidentity.NewManagedIdentityCredential(options)
	case cfg.WorkloadIdentity != nil:
		w := cfg.WorkloadIdentity
		name = fmt.Sprintf("workload_identity: tenant %q, client %q, from %s", w.TenantID, w.ClientID, authority)
		cred, err = azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: client, DisableInstanceDiscovery: named,
			TenantID: w.TenantID, ClientID: w.ClientID, TokenFilePath: w.FederatedTokenFile,
		})
	case cfg.ServicePrincipal != nil && cfg.ServicePrincipal.ClientSecret != "":
		s := cfg.ServicePrincipal
		name = fmt.Sprintf("service_principal: tenant %q, client %q, from %s", s.TenantID, s.ClientID, authority)
		cred, err = azidentity.NewClientSecretCredential(s.TenantID, s.ClientID, string(s.ClientSecret),
			&azidentity.ClientSecretCredentialOptions{ClientOptions: client, DisableInstanceDiscovery: named})
	case cfg.ServicePrincipal != nil:
		s := cfg.ServicePrincipal
		name = fmt.Sprintf("service_principal: tenant %q, client %q, from %s", s.TenantID, s.ClientID, authority)
		certificate := &certificateCredential{
			cfg:     s,
			options: azidentity.ClientCertificateCredentialOptions{ClientOptions: client, DisableInstanceDiscovery: named},
		}
		_, err = certificate.credential()
		cred = certificate
	default:
		name = "use_default"
		cred, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
			ClientOptions: client, DisableInstanceDiscovery: named,
		})
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return cred, name, nil
}

// managedIdentityEndpoint names, for messages, where azidentity asks: the hosting
// environment's endpoint (App Service, Arc and others) or the machine's IMDS.
func managedIdentityEndpoint() string {
	for _, env := range []string{"IDENTITY_ENDPOINT", "MSI_ENDPOINT"} {
		if endpoint := os.Getenv(env); endpoint != "" {
			return endpoint
		}
	}
	return "http://169.254.169.254/ (IMDS)"
}

// certificateCredential is a service principal with a certificate, whose file may
// be replaced while the collector runs. It is safe for concurrent use.
type certificateCredential struct {
	cfg     *ServicePrincipal
	options azidentity.ClientCertificateCredentialOptions

	mu      sync.Mutex
	content []byte
	current *azidentity.ClientCertificateCredential
}

func (c *certificateCredential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	cred, err := c.credential()
	if err != nil {
		return azcore.AccessToken{}, err
	}
	return cred.GetToken(ctx, options)
}

// credential reads the file, which is small and read about once an hour.
func (c *certificateCredential) credential() (*azidentity.ClientCertificateCredential, error) {
	path := c.cfg.ClientCertificatePath
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("client_certificate_path: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && bytes.Equal(content, c.content) {
		return c.current, nil
	}
	certs, key, err := azidentity.ParseCertificates(content, nil)
	if err != nil {
		return nil, fmt.Errorf("client_certificate_path: %s: %w; want PEM or PKCS #12 without a password, a certificate and its private key", path, err)
	}
	cred, err := azidentity.NewClientCertificateCredential(c.cfg.TenantID, c.cfg.ClientID, certs, key, &c.options)
	if err != nil {
		return nil, fmt.Errorf("client_certificate_path: %s: %w", path, err)
	}
	c.content, c.current = content, cred
	return cred, nil
}
