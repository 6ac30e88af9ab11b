// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/test/entra"
)

const (
	tenantID = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	clientID = "11111111-2222-3333-4444-555555555555"
	secret   = "s3cret~value"
)

func newTenant() *entra.Tenant {
	return &entra.Tenant{ID: tenantID, ClientID: clientID, Secret: secret, Scope: defaultScope}
}

// authority serves the tenant, and makes it what azidentity asks.
func authority(t *testing.T, tenant *entra.Tenant) policy.Transporter {
	t.Helper()
	server := httptest.NewTLSServer(tenant)
	t.Cleanup(server.Close)
	t.Setenv(authorityEnv, server.URL+"/")
	return server.Client()
}

// backend is what an exporter writes to: it takes only the tenant's tokens.
func backend(t *testing.T, tenant *entra.Tenant) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !tenant.Issued(r.Header.Get("Authorization")) {
			http.Error(w, "no token of ours", http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// statuses is a host that notes what is reported to it.
type statuses struct {
	component.Host
	mu     sync.Mutex
	events []*componentstatus.Event
}

func (s *statuses) Report(e *componentstatus.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *statuses) all() (all []componentstatus.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		all = append(all, e.Status())
	}
	return all
}

type running struct {
	*azureIdentity
	host *statuses
	logs *observer.ObservedLogs
}

func start(t *testing.T, cfg *Config, transport policy.Transporter) *running {
	t.Helper()
	if cfg.Scopes == nil {
		cfg.Scopes = []string{defaultScope}
	}
	require.NoError(t, cfg.Validate())
	core, logs := observer.New(zapcore.InfoLevel)
	set := extensiontest.NewNopSettings(NewFactory().Type())
	set.Logger = zap.New(core)
	e, err := newExtension(cfg, set.TelemetrySettings, transport)
	require.NoError(t, err)
	host := &statuses{Host: componenttest.NewNopHost()}
	require.NoError(t, e.Start(t.Context(), host))
	t.Cleanup(func() {
		require.NoError(t, e.Shutdown(context.Background()))
		require.NoError(t, e.Shutdown(context.Background()))
	})
	return &running{e, host, logs}
}

// post sends as an exporter would.
func (r *running) post(t *testing.T, url string) (int, error) {
	t.Helper()
	signing, err := r.RoundTripper(http.DefaultTransport)
	require.NoError(t, err)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	response, err := signing.RoundTrip(request)
	require.Empty(t, request.Header, "a RoundTripper must leave the request alone")
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestMethods(t *testing.T) {
	certificate, path := newCertificate(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("service account"), 0o600))
	for _, test := range []struct {
		name   string
		config Config
		set    func(*testing.T, *entra.Tenant)
	}{
		{
			name:   "secret",
			config: Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientSecret: secret}},
		},
		{
			name:   "certificate",
			config: Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientCertificatePath: path}},
			set:    func(_ *testing.T, tenant *entra.Tenant) { tenant.Secret, tenant.Certificate = "", certificate },
		},
		{
			name:   "workload identity",
			config: Config{WorkloadIdentity: &WorkloadIdentity{TenantID: tenantID, ClientID: clientID, FederatedTokenFile: file}},
			set:    func(_ *testing.T, tenant *entra.Tenant) { tenant.Secret, tenant.Assertion = "", "service account" },
		},
		{
			name:   "default",
			config: Config{UseDefault: true},
			set: func(t *testing.T, _ *entra.Tenant) {
				t.Setenv("AZURE_TENANT_ID", tenantID)
				t.Setenv("AZURE_CLIENT_ID", clientID)
				t.Setenv("AZURE_CLIENT_SECRET", secret)
			},
		},
		{
			name:   "managed identity, user-assigned",
			config: Config{ManagedIdentity: &ManagedIdentity{ClientID: clientID}},
			set:    serveManagedIdentity,
		},
		{
			name:   "managed identity, system-assigned",
			config: Config{ManagedIdentity: &ManagedIdentity{}},
			set: func(t *testing.T, tenant *entra.Tenant) {
				tenant.ClientID = "" // none is asked for
				serveManagedIdentity(t, tenant)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tenant := newTenant()
			transport := authority(t, tenant)
			if test.set != nil {
				test.set(t, tenant)
			}
			r := start(t, &test.config, transport)
			server := backend(t, tenant)
			for range 3 {
				code, err := r.post(t, server.URL)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, code)
			}
			require.Equal(t, 1, tenant.Asked())
			require.Equal(t, []componentstatus.Status{componentstatus.StatusOK}, r.host.all())
			require.Empty(t, r.logs.All())
			token, err := r.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{defaultScope}})
			require.NoError(t, err)
			require.True(t, tenant.Issued("Bearer "+token.Token))
		})
	}
}

func serveManagedIdentity(t *testing.T, tenant *entra.Tenant) {
	server := httptest.NewServer(&entra.ManagedIdentity{Tenant: tenant, Header: "header"})
	t.Cleanup(server.Close)
	t.Setenv("IDENTITY_ENDPOINT", server.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", "header")
}

func TestRefusalsSayWhoWhereAndWhatToDo(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		want   []string
	}{
		{
			name:   "wrong tenant",
			config: Config{ServicePrincipal: &ServicePrincipal{TenantID: "fabrikam.com", ClientID: clientID, ClientSecret: secret}},
			want:   []string{`tenant "fabrikam.com"`, clientID, "AADSTS90002", "Tenant 'fabrikam.com' not found", "(check tenant_id)"},
		},
		{
			name:   "wrong client",
			config: Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: "other", ClientSecret: secret}},
			want:   []string{tenantID, `client "other"`, "AADSTS700016", "(check client_id"},
		},
		{
			name:   "wrong secret",
			config: Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientSecret: "s3cret~other"}},
			want:   []string{tenantID, clientID, "AADSTS7000215", "(check client_secret"},
		},
		{
			name: "wrong scope",
			config: Config{
				ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientSecret: secret},
				Scopes:           []string{"https://example.com/.default"},
			},
			want: []string{"no token for https://example.com/.default", "AADSTS70011", "(check scopes)"},
		},
		{
			name:   "no token file",
			config: Config{WorkloadIdentity: &WorkloadIdentity{TenantID: tenantID, ClientID: clientID, FederatedTokenFile: "/nonexistent/token"}},
			want:   []string{"workload_identity", "open /nonexistent/token"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tenant := newTenant()
			r := start(t, &test.config, authority(t, tenant))
			server := backend(t, tenant)
			for range 3 {
				_, err := r.post(t, server.URL)
				for _, want := range test.want {
					require.ErrorContains(t, err, want)
				}
				require.ErrorContains(t, err, test.config.Scopes[0])
				require.NotContains(t, err.Error(), "\n")
				require.NotContains(t, err.Error(), "s3cret")
			}
			require.Equal(t, 1, r.logs.Len(), "logged once")
			require.Equal(t, zapcore.ErrorLevel, r.logs.All()[0].Level)
			require.Contains(t, r.logs.All()[0].Message, test.want[0])
			require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, r.host.all())
		})
	}
}

func TestManagedIdentityThatIsNotAssigned(t *testing.T) {
	tenant := newTenant()
	serveManagedIdentity(t, tenant)
	r := start(t, &Config{ManagedIdentity: &ManagedIdentity{ClientID: "other"}}, nil)
	_, err := r.post(t, backend(t, tenant).URL)
	require.ErrorContains(t, err, `client "other", from http://127.0.0.1:`)
	require.ErrorContains(t, err, "No User Assigned or Delegated Managed Identity found")
}

// TestStatusFollows: a failure and its end are said once each.
func TestStatusFollows(t *testing.T) {
	tenant := newTenant()
	tenant.Break(http.StatusBadRequest)
	r := start(t, &Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientSecret: secret}}, authority(t, tenant))
	server := backend(t, tenant)
	_, err := r.post(t, server.URL)
	require.ErrorContains(t, err, "400 Bad Request")

	fail := func() { // the pause is over
		r.cache.mu.Lock()
		r.cache.retryAt = time.Time{}
		r.cache.mu.Unlock()
	}
	fail()
	_, err = r.post(t, server.URL)
	require.ErrorContains(t, err, "400 Bad Request")
	require.Equal(t, 1, r.logs.Len(), "nothing new")

	tenant.Break(0)
	fail()
	code, err := r.post(t, server.URL)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, 2, r.logs.Len())
	require.Contains(t, r.logs.All()[1].Message, "again")
	require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, r.host.all())
}

func TestCertificateIsReplaced(t *testing.T) {
	first, path := newCertificate(t)
	tenant := newTenant()
	tenant.Secret, tenant.Certificate = "", first
	cfg := &Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientCertificatePath: path}, Scopes: []string{defaultScope}}
	cred, _, err := newCredential(cfg, authority(t, tenant))
	require.NoError(t, err)
	options := policy.TokenRequestOptions{Scopes: cfg.Scopes}
	one, err := cred.GetToken(t.Context(), options)
	require.NoError(t, err)

	second, replacement := newCertificate(t)
	require.NoError(t, os.Rename(replacement, path))
	tenant.Certificate = second
	two, err := cred.GetToken(t.Context(), options)
	require.NoError(t, err)
	require.NotEqual(t, one.Token, two.Token)
}

func TestCertificateFileIsRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	require.NoError(t, os.WriteFile(bad, []byte("no certificate"), 0o600))
	for path, want := range map[string]string{
		"/nonexistent/one.pem": "client_certificate_path: open /nonexistent/one.pem",
		bad:                    "want PEM or PKCS #12",
	} {
		cfg := createDefaultConfig().(*Config)
		cfg.ServicePrincipal = &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientCertificatePath: path}
		_, err := NewFactory().Create(t.Context(), extensiontest.NewNopSettings(NewFactory().Type()), cfg)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
}

func TestNoTokenInClearText(t *testing.T) {
	tenant := newTenant()
	r := start(t, &Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientSecret: secret}}, authority(t, tenant))
	_, err := r.post(t, "http://192.0.2.1/write")
	require.EqualError(t, err, "azureidentity: http://192.0.2.1: a token is not sent in clear text: use https")
	perRPC, err := r.PerRPCCredentials()
	require.NoError(t, err)
	require.True(t, perRPC.RequireTransportSecurity())
}

// TestGRPC calls a server, which takes only the tenant's tokens, over TLS.
func TestGRPC(t *testing.T) {
	tenant := newTenant()
	r := start(t, &Config{ServicePrincipal: &ServicePrincipal{TenantID: tenantID, ClientID: clientID, ClientSecret: secret}}, authority(t, tenant))
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, &health{tenant: tenant})
	web := httptest.NewUnstartedServer(server)
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)

	perRPC, err := r.PerRPCCredentials()
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	conn, err := grpc.NewClient(web.Listener.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")), grpc.WithPerRPCCredentials(perRPC))
	require.NoError(t, err)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)

	// Without a token the call must fail in a way that OTLP exporters try again.
	r.cache.request = func(context.Context) (azcore.AccessToken, error) {
		return azcore.AccessToken{}, errors.New("no token for " + tenantID)
	}
	r.cache.current.Store(nil)
	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.ErrorContains(t, err, tenantID)
}

type health struct {
	grpc_health_v1.UnimplementedHealthServer
	tenant *entra.Tenant
}

func (h *health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get("authorization"); len(got) != 1 || !h.tenant.Issued(got[0]) {
		return nil, status.Errorf(codes.PermissionDenied, "no token of ours: %q", got)
	}
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

// newCertificate makes a self-signed certificate, and a PEM file of it and its key.
func newCertificate(t *testing.T) (*x509.Certificate, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "otelcol-retina"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "one.pem")
	content := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})...)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return certificate, path
}
