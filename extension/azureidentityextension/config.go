// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap"
)

// Config is the extension's configuration: exactly one of the four methods, and
// what the token is for. The keys are those of contrib's azureauth extension.
type Config struct {
	// ManagedIdentity is the identity that Azure gives to the machine or the app.
	ManagedIdentity *ManagedIdentity `mapstructure:"managed_identity"`
	// WorkloadIdentity is the identity of a Kubernetes service account.
	WorkloadIdentity *WorkloadIdentity `mapstructure:"workload_identity"`
	// ServicePrincipal is an app registration, with a secret or a certificate.
	ServicePrincipal *ServicePrincipal `mapstructure:"service_principal"`
	// UseDefault tries azidentity's default chain, which is for development.
	UseDefault bool `mapstructure:"use_default"`
	// Scopes are what the token is for.
	Scopes []string `mapstructure:"scopes"`
}

// ManagedIdentity is configured by the ID of a user-assigned identity; without
// one it is the system-assigned identity.
type ManagedIdentity struct {
	ClientID string `mapstructure:"client_id"`
}

// WorkloadIdentity exchanges a service account's token for one of Entra.
type WorkloadIdentity struct {
	ClientID           string `mapstructure:"client_id"`
	FederatedTokenFile string `mapstructure:"federated_token_file"`
	TenantID           string `mapstructure:"tenant_id"`
}

// ServicePrincipal has a secret or a certificate, not both.
type ServicePrincipal struct {
	TenantID              string              `mapstructure:"tenant_id"`
	ClientID              string              `mapstructure:"client_id"`
	ClientSecret          configopaque.String `mapstructure:"client_secret"`
	ClientCertificatePath string              `mapstructure:"client_certificate_path"`
}

// Unmarshal reads the configuration. "managed_identity:" with nothing after it
// asks for the system-assigned identity; plain decoding would leave it out.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error {
	if conf.IsSet("managed_identity") && conf.Get("managed_identity") == nil {
		cfg.ManagedIdentity = &ManagedIdentity{}
	}
	type plain Config // without this method, which Unmarshal would call again
	return conf.Unmarshal((*plain)(cfg))
}

// Validate refuses what cannot get a token.
func (cfg *Config) Validate() error {
	var errs []error
	var methods []string
	if cfg.ManagedIdentity != nil {
		methods = append(methods, "managed_identity")
		if len(cfg.Scopes) > 1 {
			errs = append(errs, fmt.Errorf("scopes: %d of them: managed_identity takes exactly one", len(cfg.Scopes)))
		}
	}
	if w := cfg.WorkloadIdentity; w != nil {
		methods = append(methods, "workload_identity")
		errs = append(errs,
			required("workload_identity::tenant_id", w.TenantID),
			tenant("workload_identity::tenant_id", w.TenantID),
			required("workload_identity::client_id", w.ClientID),
			required("workload_identity::federated_token_file", w.FederatedTokenFile))
	}
	if s := cfg.ServicePrincipal; s != nil {
		methods = append(methods, "service_principal")
		errs = append(errs,
			required("service_principal::tenant_id", s.TenantID),
			tenant("service_principal::tenant_id", s.TenantID),
			required("service_principal::client_id", s.ClientID))
		switch {
		case s.ClientSecret == "" && s.ClientCertificatePath == "":
			errs = append(errs, fmt.Errorf("%w; or give client_certificate_path", required("service_principal::client_secret", "")))
		case s.ClientSecret != "" && s.ClientCertificatePath != "":
			errs = append(errs, errors.New("service_principal: has client_secret and client_certificate_path: give one of them"))
		}
	}
	if cfg.UseDefault {
		methods = append(methods, "use_default")
	}
	switch len(methods) {
	case 1:
	case 0:
		errs = append(errs, errors.New("no way to get a token: give one of managed_identity, workload_identity, service_principal, use_default"))
	default:
		errs = append(errs, fmt.Errorf("%s: give one of them", strings.Join(methods, " and ")))
	}
	if len(cfg.Scopes) == 0 {
		errs = append(errs, fmt.Errorf("scopes: is empty: what is the token for? Azure Monitor's is %s", defaultScope))
	}
	for _, scope := range cfg.Scopes {
		if strings.TrimSpace(scope) == "" {
			errs = append(errs, required("scopes", ""))
		}
	}
	return errors.Join(errs...)
}

// required names the usual reason of an empty value: the Collector puts nothing
// for an environment variable that is not set, and only warns.
func required(key, value string) error {
	if value != "" {
		return nil
	}
	return fmt.Errorf("%s: is empty; if the configuration says ${env:NAME} there, set that environment variable", key)
}

// tenant refuses what azidentity would: it puts the tenant into the URL's path.
func tenant(key, value string) error {
	for _, r := range value {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-') {
			return fmt.Errorf("%s: %q: must be a tenant's ID or domain: letters, digits, '.' and '-'", key, value)
		}
	}
	return nil
}
