// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Config is the exporter's configuration.
type Config struct {
	// ConnectionString is the resource's, as Azure's portal shows it.
	ConnectionString configopaque.String                                      `mapstructure:"connection_string"`
	ClientConfig     confighttp.ClientConfig                                  `mapstructure:",squash"`
	QueueConfig      configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	RetryConfig      configretry.BackOffConfig                                `mapstructure:"retry_on_failure"`
}

// Validate refuses a connection string that names no resource.
func (cfg *Config) Validate() error {
	var errs []error
	if _, err := parseConnectionString(string(cfg.ConnectionString)); err != nil {
		errs = append(errs, fmt.Errorf("connection_string: %w", err))
	}
	if cfg.ClientConfig.Endpoint != "" {
		errs = append(errs, fmt.Errorf("endpoint: %q: is part of the connection_string: IngestionEndpoint=…", cfg.ClientConfig.Endpoint))
	}
	return errors.Join(errs...)
}

// resource is where metrics go.
type resource struct {
	instrumentationKey string
	url                string // that takes them
}

// defaultIngestion is the endpoint of resources that name neither one nor a suffix,
// which is how those of other clouds than the public one may be named.
// https://learn.microsoft.com/azure/azure-monitor/app/connection-strings#schema
const defaultIngestion = "https://dc.services.visualstudio.com/"

// instrumentationKey is the form of every key. The service would refuse another,
// but only once there are points to send.
// https://learn.microsoft.com/azure/azure-monitor/app/connection-strings#schema
var instrumentationKey = regexp.MustCompile(`^(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// parseConnectionString reads "key=value;…"; keys are matched without regard to
// case. Errors hold none of the values but that of the endpoint.
func parseConnectionString(s string) (resource, error) {
	if strings.TrimSpace(s) == "" {
		return resource{}, errors.New("is empty; if the configuration says ${env:NAME} there, set that environment variable")
	}
	var endpoint, suffix, location, key string
	for pair := range strings.SplitSeq(s, ";") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return resource{}, errors.New("has a part without '='; want InstrumentationKey=…;IngestionEndpoint=https://…")
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "instrumentationkey":
			key = strings.TrimSpace(value)
		case "ingestionendpoint":
			endpoint = strings.TrimSpace(value)
		case "endpointsuffix":
			suffix = strings.TrimSpace(value)
		case "location":
			location = strings.TrimSpace(value)
		}
	}
	if key == "" {
		return resource{}, errors.New("has no InstrumentationKey")
	}
	if !instrumentationKey.MatchString(key) {
		return resource{}, errors.New("InstrumentationKey: must be a UUID, as in the connection string that Azure's portal shows")
	}
	switch {
	case endpoint != "":
	case suffix != "" && location != "":
		endpoint = "https://" + location + ".dc." + suffix
	case suffix != "":
		endpoint = "https://dc." + suffix
	default:
		endpoint = defaultIngestion
	}
	if strings.Contains(endpoint, "@") {
		return resource{}, errors.New("IngestionEndpoint: must be without user and password")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
		return resource{}, fmt.Errorf("IngestionEndpoint: %q: must be a URL", endpoint)
	}
	return resource{instrumentationKey: key, url: u.JoinPath("v2.1/track").String()}, nil
}
