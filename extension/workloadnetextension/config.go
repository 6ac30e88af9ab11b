// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/ipam"
)

const (
	defaultEndpoint = "unix:///run/otelcol-retina/workloadnet.sock"
	unixScheme      = "unix://"
	// maxSocketPath is what sockaddr_un holds, without its final zero; unix(7).
	maxSocketPath = 107
)

// Config is the extension's configuration.
type Config struct {
	// Endpoint is where the service listens: unix:// and an absolute path.
	Endpoint string `mapstructure:"endpoint"`
	// Prefixes are what addresses are given from. If both families are among
	// them, every workload gets an address of each.
	Prefixes []netip.Prefix `mapstructure:"prefixes"`
	// CoolDown is how long an address rests before another workload gets it.
	CoolDown time.Duration `mapstructure:"cool_down"`
	// Identity is the ID of the podidentity extension that is told.
	Identity component.ID `mapstructure:"identity"`
	// Storage is the ID of the storage extension that keeps the attachments.
	Storage component.ID `mapstructure:"storage"`
}

func createDefaultConfig() component.Config {
	return &Config{
		Endpoint: defaultEndpoint,
		CoolDown: time.Minute,
		Identity: component.MustNewID("podidentity"),
	}
}

// Validate refuses what cannot work.
func (cfg *Config) Validate() error {
	errs := []error{cfg.validateEndpoint(), validatePrefixes(cfg.Prefixes)}
	if cfg.CoolDown < 0 {
		errs = append(errs, fmt.Errorf("cool_down: %s: must be 0s or more", cfg.CoolDown))
	}
	if cfg.Identity == (component.ID{}) {
		errs = append(errs, errors.New("identity: must name a podidentity extension, such as podidentity"))
	}
	if cfg.Storage == (component.ID{}) {
		errs = append(errs, errors.New("storage: must name a storage extension, such as file_storage: "+
			"without one a restart would forget whose the addresses in use are"))
	}
	return errors.Join(errs...)
}

func (cfg *Config) validateEndpoint() error {
	path, ok := strings.CutPrefix(cfg.Endpoint, unixScheme)
	switch {
	case !ok || !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/":
		return fmt.Errorf("endpoint: %q: must be %s and the absolute path of a socket, such as %s", cfg.Endpoint, unixScheme, defaultEndpoint)
	case len(path) > maxSocketPath:
		return fmt.Errorf("endpoint: %q: the path has %d bytes, a socket's can have %d", cfg.Endpoint, len(path), maxSocketPath)
	}
	return nil
}

func validatePrefixes(prefixes []netip.Prefix) error {
	if len(prefixes) == 0 {
		return errors.New("prefixes: must have at least one prefix, such as 10.88.0.0/24; with one of each family, workloads get two addresses")
	}
	var errs []error
	for i, p := range prefixes {
		if err := validatePrefix(p); err != nil {
			errs = append(errs, fmt.Errorf("prefixes: %s: %w", p, err))
			continue
		}
		for _, other := range prefixes[:i] {
			if p.Overlaps(other) {
				errs = append(errs, fmt.Errorf("prefixes: %s overlaps %s", p, other))
			}
		}
	}
	return errors.Join(errs...)
}

func validatePrefix(p netip.Prefix) error {
	addr := p.Addr()
	switch {
	case !p.IsValid():
		return errors.New("not a prefix")
	case addr.Is4In6():
		return errors.New("must be written as IPv4")
	case p.Masked() != p:
		return fmt.Errorf("has bits beyond its length: %s?", p.Masked())
	case !addr.IsGlobalUnicast():
		return errors.New("must be of unicast addresses that are not link-local or loopback")
	}
	_, err := ipam.NewPool([]netip.Prefix{p}, 0)
	return err
}
