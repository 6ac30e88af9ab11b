// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/azureidentityextension/internal/metadata"
)

var (
	_ extension.Extension           = (*azureIdentity)(nil)
	_ extensionauth.HTTPClient      = (*azureIdentity)(nil)
	_ extensionauth.GRPCClient      = (*azureIdentity)(nil)
	_ azcore.TokenCredential        = (*azureIdentity)(nil)
	_ http.RoundTripper             = (*roundTripper)(nil)
	_ credentials.PerRPCCredentials = (*perRPC)(nil)
)

// azureIdentity signs what it is asked to. All methods but Start and Shutdown are
// safe for concurrent use.
type azureIdentity struct {
	cfg       *Config
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	cred      azcore.TokenCredential
	name      string // of the method, for messages
	cache     *tokenCache
	host      component.Host
	shutdown  sync.Once

	lastReport string // the error that was last reported, "" for none; used by report only
	reported   bool
}

// newExtension reads what the method needs, such as a certificate's file, and makes
// no connection yet. A nil transport is azcore's own.
func newExtension(cfg *Config, set component.TelemetrySettings, transport policy.Transporter) (*azureIdentity, error) {
	cred, name, err := newCredential(cfg, transport)
	if err != nil {
		return nil, err
	}
	telemetry, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	e := &azureIdentity{cfg: cfg, logger: set.Logger, telemetry: telemetry, cred: cred, name: name}
	e.cache = newTokenCache(e.request, e.report)
	return e, nil
}

// Start asks for the first token, so that the log says at once if there is none.
// It doesn't wait for it: Azure may be away for a while, and exporters retry.
func (e *azureIdentity) Start(_ context.Context, host component.Host) error {
	e.host = host
	_, err := e.cache.start(e.cache.now())
	return err
}

// Shutdown ends the request that runs.
func (e *azureIdentity) Shutdown(context.Context) error {
	e.shutdown.Do(func() {
		e.cache.close()
		e.telemetry.Shutdown()
	})
	return nil
}

// request asks azidentity, and names who failed, where and why.
func (e *azureIdentity) request(ctx context.Context) (azcore.AccessToken, error) {
	token, err := e.cred.GetToken(ctx, policy.TokenRequestOptions{Scopes: e.cfg.Scopes})
	outcome := "success"
	if err != nil {
		outcome = "failure"
		err = fmt.Errorf("no token for %s (%s): %s", strings.Join(e.cfg.Scopes, " "), e.name, explain(err))
	}
	e.telemetry.ExtensionAzureidentityTokenRequests.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
	return token, err
}

// report says it once when requests begin to fail, fail in another way or succeed
// again.
func (e *azureIdentity) report(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if e.reported && now == e.lastReport {
		return
	}
	again := e.reported
	e.reported, e.lastReport = true, now
	if err != nil {
		e.logger.Error("Azure gives no token: exporters that need it can't send, and retry. "+now, zap.Duration("retry_pause", retryPause))
		componentstatus.ReportStatus(e.host, componentstatus.NewRecoverableErrorEvent(err))
		return
	}
	if again {
		e.logger.Info("Azure gives tokens again", zap.String("identity", e.name))
	}
	componentstatus.ReportStatus(e.host, componentstatus.NewEvent(componentstatus.StatusOK))
}

// GetToken makes the extension an azcore.TokenCredential, for components that ask
// for a token of other scopes.
func (e *azureIdentity) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return e.cred.GetToken(ctx, options)
}

// RoundTripper returns base with the token on every request.
func (e *azureIdentity) RoundTripper(base http.RoundTripper) (http.RoundTripper, error) {
	return &roundTripper{base: base, cache: e.cache}, nil
}

type roundTripper struct {
	base  http.RoundTripper
	cache *tokenCache
}

// RoundTrip signs a copy: a RoundTripper must not change the request.
func (r *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !loopback(request.URL.Hostname()) {
		closeBody(request)
		return nil, fmt.Errorf("azureidentity: %s://%s: a token is not sent in clear text: use https", request.URL.Scheme, request.URL.Host)
	}
	token, err := r.cache.token(request.Context())
	if err != nil {
		closeBody(request)
		return nil, fmt.Errorf("azureidentity: %w", err)
	}
	signed := request.Clone(request.Context())
	signed.Header.Set("Authorization", "Bearer "+token.Token)
	return r.base.RoundTrip(signed)
}

// closeBody is a RoundTripper's duty on errors, too.
func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // nothing was read from it
	}
}

// loopback tells a proxy on this machine, which may speak HTTP.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// PerRPCCredentials puts the token on every call.
func (e *azureIdentity) PerRPCCredentials() (credentials.PerRPCCredentials, error) {
	return &perRPC{cache: e.cache}, nil
}

type perRPC struct {
	cache *tokenCache
}

func (p *perRPC) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := p.cache.token(ctx)
	if err != nil {
		// Any other error would be Unauthenticated, at which the OTLP exporter drops
		// the data instead of trying again.
		return nil, status.Errorf(codes.Unavailable, "azureidentity: %v", err)
	}
	return map[string]string{"authorization": "Bearer " + token.Token}, nil
}

// RequireTransportSecurity keeps the token from going in clear text.
func (*perRPC) RequireTransportSecurity() bool { return true }
