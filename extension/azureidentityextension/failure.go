// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// advice is what to do about the errors of Entra that a configuration causes.
// https://learn.microsoft.com/entra/identity-platform/reference-error-codes
var advice = map[string]string{
	"AADSTS90002":   "check tenant_id",
	"AADSTS900023":  "check tenant_id",
	"AADSTS700016":  "check client_id, and that the application is in this tenant",
	"AADSTS7000215": "check client_secret: its value, not its ID",
	"AADSTS7000222": "the client secret has expired: make a new one",
	"AADSTS700027":  "upload this certificate to the application's registration",
	"AADSTS700213":  "check the subject of the application's federated credential",
	"AADSTS700211":  "check the issuer of the application's federated credential",
	"AADSTS700212":  "check the audience of the application's federated credential",
	"AADSTS500011":  "check scopes",
	"AADSTS70011":   "check scopes",
}

// answer is an error as Entra and the managed identity's endpoints write it.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow#error-response
type answer struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Message     string `json:"message"` // App Service
}

// localPort is a connection's own, in Go's words "read udp 10.0.0.7:41234->10.0.0.10:53:
// i/o timeout": it differs every time.
var localPort = regexp.MustCompile(`:\d+->`)

// explain puts what azidentity says into one line that stays the same while the
// cause does, with what to do about it where that is known.
func explain(err error) string {
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(err, &failed) || failed.RawResponse == nil {
		return oneLine(localPort.ReplaceAllString(err.Error(), "->"))
	}
	body, readErr := runtime.Payload(failed.RawResponse) // kept, though it has been read
	if readErr != nil {
		body = nil
	}
	return explainResponse(failed.RawResponse.StatusCode, body)
}

func explainResponse(status int, body []byte) string {
	said := fmt.Sprintf("%d %s", status, http.StatusText(status))
	var a answer
	if json.Unmarshal(body, &a) != nil {
		return said // a proxy's page, perhaps
	}
	text := a.Description
	if text == "" {
		text = a.Message
	}
	// What follows differs every time.
	text, _, _ = strings.Cut(oneLine(text), " Trace ID:")
	code, _, _ := strings.Cut(text, ":")
	for _, part := range []string{oneLine(a.Error), text} {
		if part != "" {
			said += ": " + part
		}
	}
	if todo, known := advice[code]; known {
		said += " (" + todo + ")"
	}
	return said
}

const maxMessage = 500

// oneLine joins the words of a text by single spaces and cuts a very long one.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
