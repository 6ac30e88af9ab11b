// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"time"
)

// Config is the configuration of a cri source.
type Config struct {
	// Endpoint is the runtime's socket or named pipe as a URL; empty means that
	// it is looked for.
	Endpoint string `mapstructure:"endpoint"`
	// PollInterval is how often the sandboxes are listed at least.
	PollInterval time.Duration `mapstructure:"poll_interval"`
	// Timeout bounds each call.
	Timeout time.Duration `mapstructure:"timeout"`
}

// NewDefaultConfig returns the configuration of a source without settings.
func NewDefaultConfig() *Config {
	return &Config{PollInterval: 5 * time.Second, Timeout: 5 * time.Second}
}

// Validate refuses what cannot work.
func (cfg *Config) Validate() error {
	var errs []error
	if cfg.Endpoint != "" {
		if _, err := parseEndpoint(cfg.Endpoint); err != nil {
			errs = append(errs, fmt.Errorf("endpoint: %w", err))
		}
	}
	if cfg.PollInterval <= 0 {
		errs = append(errs, fmt.Errorf("poll_interval: %s: must be more than 0s", cfg.PollInterval))
	} else if cfg.PollInterval < time.Millisecond {
		errs = append(errs, fmt.Errorf("poll_interval: %s: must be 1ms or more; a number without a unit means nanoseconds, write such as 5s", cfg.PollInterval))
	}
	if cfg.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("timeout: %s: must be more than 0s", cfg.Timeout))
	}
	return errors.Join(errs...)
}
