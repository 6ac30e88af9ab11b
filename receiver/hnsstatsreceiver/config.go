// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/scraper/scraperhelper"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// Config is the receiver's configuration. The keys of the platform that the
// collector does not run on are read and left alone, so that one file serves
// the nodes of both.
type Config struct {
	scraperhelper.ControllerConfig `mapstructure:",squash"`
	metadata.MetricsBuilderConfig  `mapstructure:",squash"`

	// HNS is how endpoints are read on Windows.
	HNS HNSConfig `mapstructure:"hns"`
	// Netlink is how endpoints are read on Linux.
	Netlink NetlinkConfig `mapstructure:"netlink"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// HNSConfig is the configuration of the Windows source.
type HNSConfig struct {
	VFP VFPConfig `mapstructure:"vfp"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// VFPConfig says what is asked of the Virtual Filtering Platform: packets
// dropped by rules, TCP segments by flag, and the events of TCP connections.
type VFPConfig struct {
	// Enabled runs vfpctrl for each endpoint on every collection.
	Enabled bool `mapstructure:"enabled"`
	// Timeout bounds one run of vfpctrl.
	Timeout time.Duration `mapstructure:"timeout"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NetlinkConfig is the configuration of the Linux source.
type NetlinkConfig struct {
	TCP NetlinkTCPConfig `mapstructure:"tcp"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NetlinkTCPConfig says whether the TCP totals of the pods' network namespaces
// are read.
type NetlinkTCPConfig struct {
	// Enabled enters every pod's network namespace on every collection.
	Enabled bool `mapstructure:"enabled"`

	// prevent unkeyed literal initialization
	_ struct{}
}

var (
	_ component.Config  = (*Config)(nil)
	_ confmap.Validator = (*Config)(nil)
	_ confmap.Validator = (*VFPConfig)(nil)
)

const (
	defaultCollectionInterval = 10 * time.Second
	defaultVFPTimeout         = 5 * time.Second
)

func createDefaultConfig() component.Config {
	controller := scraperhelper.NewDefaultControllerConfig()
	controller.CollectionInterval = defaultCollectionInterval
	return &Config{
		ControllerConfig:     controller,
		MetricsBuilderConfig: metadata.NewDefaultMetricsBuilderConfig(),
		HNS:                  HNSConfig{VFP: VFPConfig{Enabled: true, Timeout: defaultVFPTimeout}},
	}
}

// Validate implements confmap.Validator. The embedded ControllerConfig's own
// errors lack the value, and the metrics' own let an attribute be named twice.
func (c *Config) Validate() error {
	var errs []error
	if c.CollectionInterval <= 0 {
		errs = append(errs, fmt.Errorf("collection_interval is %v, must be longer than 0, such as %v", c.CollectionInterval, defaultCollectionInterval))
	} else if c.CollectionInterval < time.Millisecond {
		errs = append(errs, fmt.Errorf("collection_interval is %v, must be 1ms or more; a number without a unit means nanoseconds, write such as %v", c.CollectionInterval, defaultCollectionInterval))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout is %v, must be longer than 0, or 0 for none", c.Timeout))
	}
	errs = append(errs, attributesTwice(&c.Metrics))
	return errors.Join(errs...)
}

// Validate implements confmap.Validator.
func (c *VFPConfig) Validate() error {
	if c.Timeout <= 0 {
		return fmt.Errorf("timeout is %v, must be longer than 0, such as %v", c.Timeout, defaultVFPTimeout)
	}
	return nil
}
