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
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/ipam"
	"github.com/otelcol-retina/otelcol-retina/internal/kubeapi"
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
	// K8s, if set, takes the podCIDRs of the node in Kubernetes for Prefixes.
	K8s configoptional.Optional[K8sConfig] `mapstructure:"k8s"`
	// CoolDown is how long an address rests before another workload gets it.
	CoolDown time.Duration `mapstructure:"cool_down"`
	// Identity is the ID of the podidentity extension that is told.
	Identity component.ID `mapstructure:"identity"`
	// Storage is the ID of the storage extension that keeps the attachments.
	Storage component.ID `mapstructure:"storage"`
}

// K8sConfig says how to ask Kubernetes for the node's podCIDRs.
type K8sConfig struct {
	// AuthType is how to authenticate; serviceAccount by default.
	AuthType kubeapi.AuthType `mapstructure:"auth_type"`
	// Context overrides the current context of the kubeconfig file.
	Context string `mapstructure:"context"`
	// Node is the node's name as Kubernetes knows it.
	Node string `mapstructure:"node"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Validate refuses what cannot work.
func (cfg *K8sConfig) Validate() error {
	err := cfg.AuthType.Validate(cfg.Context)
	if cfg.Node == "" {
		err = errors.Join(err, errors.New("node: required: the node's name, for example ${env:K8S_NODE_NAME} "+
			"with that variable set from spec.nodeName in the pod's manifest"))
	}
	return err
}

func createDefaultConfig() component.Config {
	return &Config{
		K8s:      configoptional.Default(K8sConfig{AuthType: kubeapi.AuthServiceAccount}),
		Endpoint: defaultEndpoint,
		CoolDown: time.Minute,
		Identity: component.MustNewID("podidentity"),
	}
}

// Validate refuses what cannot work.
func (cfg *Config) Validate() error {
	errs := []error{cfg.validateEndpoint()}
	switch {
	case !cfg.K8s.HasValue():
		errs = append(errs, validatePrefixes(cfg.Prefixes))
	case cfg.Prefixes != nil:
		errs = append(errs, errors.New("prefixes: must not be set together with k8s, which takes the node's podCIDRs"))
	}
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
		return errors.New("prefixes: must have at least one prefix, such as 10.88.0.0/24 (with one of each family, workloads get two addresses), " +
			"unless k8s is set")
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
