// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnectionString(t *testing.T) {
	for s, want := range map[string]resource{
		"InstrumentationKey=" + key: {key, "https://dc.services.visualstudio.com/v2.1/track"},
		"InstrumentationKey=" + key + ";IngestionEndpoint=https://westeurope-1.in.applicationinsights.azure.com/;LiveEndpoint=https://x/;ApplicationId=b;": {
			key, "https://westeurope-1.in.applicationinsights.azure.com/v2.1/track",
		},
		" instrumentationkey = " + key + " ; ingestionendpoint = http://127.0.0.1:8080/proxy ": {key, "http://127.0.0.1:8080/proxy/v2.1/track"},
		// Other clouds: without this their data went to the public one.
		"InstrumentationKey=" + key + ";EndpointSuffix=applicationinsights.us":                {key, "https://dc.applicationinsights.us/v2.1/track"},
		"InstrumentationKey=" + key + ";EndpointSuffix=ai.example.com;Location=westus2":       {key, "https://westus2.dc.ai.example.com/v2.1/track"},
		"InstrumentationKey=" + key + ";EndpointSuffix=x.com;IngestionEndpoint=https://y.com": {key, "https://y.com/v2.1/track"},
	} {
		got, err := parseConnectionString(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got)
	}
	for s, want := range map[string]string{
		"":                            "set that environment variable",
		"s3cret":                      "has a part without '='",
		"IngestionEndpoint=https://x": "has no InstrumentationKey",
		"InstrumentationKey=" + key + ";IngestionEndpoint=x":                   `IngestionEndpoint: "x": must be a URL`,
		"InstrumentationKey=s3cret":                                            "InstrumentationKey: must be a UUID",
		"InstrumentationKey=" + key + "0":                                      "InstrumentationKey: must be a UUID",
		"InstrumentationKey=;":                                                 "has no InstrumentationKey",
		"InstrumentationKey=" + key + ";IngestionEndpoint=https://u:s3cret@x/": "must be without user and password",
		"InstrumentationKey=" + key + ";IngestionEndpoint=https://:443/":       "must be a URL",
		"InstrumentationKey=" + key + ";EndpointSuffix=x y":                    "must be a URL",
	} {
		_, err := parseConnectionString(s)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
		require.NotContains(t, err.Error(), key)
	}
	cfg := createDefaultConfig().(*Config)
	cfg.ConnectionString, cfg.ClientConfig.Endpoint = "InstrumentationKey="+key, "https://x"
	require.ErrorContains(t, cfg.Validate(), "endpoint")
}

func FuzzConnectionString(f *testing.F) {
	f.Add("InstrumentationKey=12345678-1234-1234-1234-123456789abc;IngestionEndpoint=https://x/")
	f.Add(";=;==;InstrumentationKey")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseConnectionString(s)
		if err == nil && (r.instrumentationKey == "" || !strings.HasSuffix(r.url, "/v2.1/track")) {
			t.Errorf("%q: %+v", s, r)
		}
	})
}
