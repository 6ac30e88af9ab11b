// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package azureidentityextension

import (
	"net"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestExplainResponse(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{
			name: "Entra", status: 401,
			body: `{"error":"invalid_client","error_description":"AADSTS7000222: The provided client secret keys for app 'a' are expired. Trace ID: 11 Correlation ID: 22 Timestamp: 2026-01-01 00:00:00Z","error_codes":[7000222]}`,
			want: "401 Unauthorized: invalid_client: AADSTS7000222: The provided client secret keys for app 'a' are expired. (the client secret has expired: make a new one)",
		},
		{
			name: "Entra, lines", status: 400,
			body: "{\"error\":\"x\",\"error_description\":\"AADSTS1: one\\r\\nTrace ID: 11\"}",
			want: "400 Bad Request: x: AADSTS1: one",
		},
		{name: "App Service", status: 400, body: `{"statusCode":400,"message":"No managed identity"}`, want: "400 Bad Request: No managed identity"},
		{name: "a proxy's page", status: 502, body: "<html>", want: "502 Bad Gateway"},
		{name: "nothing", status: 500, want: "500 Internal Server Error"},
		{name: "another type", status: 400, body: `{"error":{"code":"x"}}`, want: "400 Bad Request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, explainResponse(test.status, []byte(test.body)))
		})
	}
}

// TestExplainNoAnswer: the same failure is the same text, so that it is logged once.
func TestExplainNoAnswer(t *testing.T) {
	udp := func(ip string, port int) *net.UDPAddr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: port} }
	for want, ips := range map[string][2]string{
		"read udp 10.0.0.7->10.0.0.10:53: i/o timeout":  {"10.0.0.7", "10.0.0.10"},
		"read udp [fd00::7]->[fd00::a]:53: i/o timeout": {"fd00::7", "fd00::a"},
	} {
		for _, port := range []int{41234, 53011} {
			err := &net.OpError{Op: "read", Net: "udp", Source: udp(ips[0], port), Addr: udp(ips[1], 53), Err: os.ErrDeadlineExceeded}
			require.Equal(t, want, explain(err))
		}
	}
}

func FuzzExplainResponse(f *testing.F) {
	f.Add(400, []byte(`{"error":"a","error_description":"AADSTS90002: b Trace ID: c"}`))
	f.Add(0, []byte(`{"message":"\xff"}`))
	f.Add(500, []byte(strings.Repeat("{", 1000)))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		said := explainResponse(status, body)
		if strings.ContainsAny(said, "\n\r") || len(said) > 3*maxMessage || !utf8.ValidString(said) {
			t.Errorf("%q", said)
		}
	})
}
