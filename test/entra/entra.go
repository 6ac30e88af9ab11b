// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package entra gives tests what Azure would: a Microsoft Entra tenant's token
// endpoint, and the managed identity's endpoint of App Service. They are simulated
// from the protocols' documents, since the real ones can't be reached from tests:
//   - https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
//   - https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
package entra

import (
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Tenant is a tenant with one application. It serves the token endpoint and what
// leads there. Set its fields before it serves.
type Tenant struct {
	ID, ClientID string
	// Secret, Certificate and Assertion are what the application may show.
	Secret      string
	Certificate *x509.Certificate
	Assertion   string // a federated token
	Scope       string
	// Lifetime is that of the tokens; an hour if it is 0.
	Lifetime time.Duration
	// Before, if set, is called before a token request is answered.
	Before func()

	mu     sync.Mutex
	issued []string
	asked  int
	broken int
}

// Break makes the token endpoint answer with the status; 0 mends it.
func (t *Tenant) Break(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = status
}

// Asked returns how often a token was asked for, in vain or not.
func (t *Tenant) Asked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// Issued reports whether the value of an Authorization header is a token of ours.
func (t *Tenant) Issued(authorization string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	return bearer && slices.Contains(t.issued, token)
}

// issue makes the next token.
func (t *Tenant) issue() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued = append(t.issued, fmt.Sprintf("token-%d-%s", len(t.issued)+1, t.ID))
	return t.issued[len(t.issued)-1]
}

func (t *Tenant) lifetime() time.Duration {
	if t.Lifetime == 0 {
		return time.Hour
	}
	return t.Lifetime
}

func (t *Tenant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch path {
	case "v2.0/.well-known/openid-configuration":
		if tenant != t.ID {
			refuse(w, http.StatusBadRequest, "invalid_tenant", "AADSTS90002: Tenant '"+tenant+"' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud.")
			return
		}
		base := "https://" + r.Host + "/" + tenant
		write(w, http.StatusOK, map[string]any{
			"authorization_endpoint": base + "/oauth2/v2.0/authorize",
			"token_endpoint":         base + "/oauth2/v2.0/token",
			"issuer":                 base + "/v2.0",
		})
	case "oauth2/v2.0/token":
		t.token(w, r, tenant)
	default:
		http.NotFound(w, r)
	}
}

func (t *Tenant) token(w http.ResponseWriter, r *http.Request, tenant string) {
	if t.Before != nil {
		t.Before()
	}
	t.mu.Lock()
	t.asked++
	broken := t.broken
	t.mu.Unlock()
	if broken != 0 {
		http.Error(w, http.StatusText(broken), broken)
		return
	}
	clientID, secret := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	if user, password, ok := r.BasicAuth(); ok { // as golang.org/x/oauth2 tries first
		clientID, secret = user, password
	}
	switch {
	case tenant != t.ID:
		refuse(w, http.StatusBadRequest, "invalid_request", "AADSTS90002: Tenant '"+tenant+"' not found.")
	case r.PostFormValue("grant_type") != "client_credentials":
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "AADSTS70003: The app requested an unsupported grant type.")
	case clientID != t.ClientID:
		refuse(w, http.StatusBadRequest, "unauthorized_client", "AADSTS700016: Application with identifier '"+clientID+"' was not found in the directory.")
	case !slices.Contains(strings.Fields(r.PostFormValue("scope")), t.Scope):
		refuse(w, http.StatusBadRequest, "invalid_scope", "AADSTS70011: The provided value for the input parameter 'scope' is not valid.")
	case secret != "" && secret == t.Secret, t.shown(r):
		seconds := int(t.lifetime() / time.Second)
		write(w, http.StatusOK, map[string]any{
			"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": t.issue(),
		})
	case secret != "":
		refuse(w, http.StatusUnauthorized, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
	default:
		refuse(w, http.StatusUnauthorized, "invalid_client", "AADSTS700027: Client assertion failed signature validation.")
	}
}

// shown reports whether the request has the federated token, or an assertion that
// the certificate's key has signed for this endpoint.
func (t *Tenant) shown(r *http.Request) bool {
	assertion := r.PostFormValue("client_assertion")
	if assertion == "" || r.PostFormValue("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return false
	}
	if t.Certificate == nil {
		return assertion == t.Assertion
	}
	_, err := jwt.Parse(assertion, func(token *jwt.Token) (any, error) {
		sum1, sum256 := sha1.Sum(t.Certificate.Raw), sha256.Sum256(t.Certificate.Raw)
		if token.Header["x5t"] != base64.StdEncoding.EncodeToString(sum1[:]) && token.Header["x5t#S256"] != base64.StdEncoding.EncodeToString(sum256[:]) {
			return nil, fmt.Errorf("another certificate's thumbprint")
		}
		return t.Certificate.PublicKey.(*rsa.PublicKey), nil
	}, jwt.WithIssuer(t.ClientID), jwt.WithSubject(t.ClientID), jwt.WithExpirationRequired(),
		jwt.WithAudience("https://"+r.Host+"/"+t.ID+"/oauth2/v2.0/token"))
	return err == nil
}

// ManagedIdentity serves App Service's endpoint of a tenant's managed identity.
type ManagedIdentity struct {
	*Tenant
	// Header is what IDENTITY_HEADER says.
	Header string
}

func (m *ManagedIdentity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked++
	m.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.Header.Get("X-IDENTITY-HEADER") != m.Header:
		write(w, http.StatusUnauthorized, map[string]any{"statusCode": 401, "message": "Unauthorized"})
	case query.Get("client_id") != m.ClientID, query.Get("api-version") != "2019-08-01":
		write(w, http.StatusBadRequest, map[string]any{"statusCode": 400, "message": "No User Assigned or Delegated Managed Identity found for specified ClientId/ResourceId/PrincipalId."})
	case query.Get("resource")+"/.default" != m.Scope:
		write(w, http.StatusBadRequest, map[string]any{"statusCode": 400, "message": "The resource principal named " + query.Get("resource") + " was not found."})
	default:
		write(w, http.StatusOK, map[string]any{
			"access_token": m.issue(), "token_type": "Bearer", "resource": query.Get("resource"),
			"expires_on": strconv.FormatInt(time.Now().Add(m.lifetime()).Unix(), 10), "client_id": m.ClientID,
		})
	}
}

// IMDS serves the metadata endpoint of an Azure machine, which is at
// 169.254.169.254.
// https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
type IMDS struct{ *Tenant }

func (i *IMDS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asked++
	i.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.URL.Path != "/metadata/identity/oauth2/token":
		http.NotFound(w, r)
	case r.Header.Get("Metadata") != "true":
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": "Required metadata header not specified"})
	case query.Get("client_id") != i.ClientID:
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": "Identity not found"})
	case query.Get("resource")+"/.default" != i.Scope:
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_resource", "error_description": "AADSTS500011: The resource principal named " + query.Get("resource") + " was not found."})
	default:
		write(w, http.StatusOK, map[string]any{
			"access_token": i.issue(), "token_type": "Bearer", "resource": query.Get("resource"),
			"expires_in": strconv.Itoa(int(i.lifetime() / time.Second)),
			"expires_on": strconv.FormatInt(time.Now().Add(i.lifetime()).Unix(), 10),
		})
	}
}

// refuse answers as Entra does; what follows the description differs every time.
func refuse(w http.ResponseWriter, status int, code, description string) {
	write(w, status, map[string]any{
		"error":             code,
		"error_description": fmt.Sprintf("%s Trace ID: %x Correlation ID: %x Timestamp: %s", description, time.Now().UnixNano(), time.Now().UnixNano(), time.Now().UTC().Format(time.DateTime)+"Z"),
	})
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}
