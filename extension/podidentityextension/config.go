// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
)

// Config is the extension's configuration.
type Config struct {
	// Sources are where identities come from, each named by its type or by
	// type/name. None is needed where another extension publishes them.
	Sources map[component.ID]component.Config `mapstructure:"sources"`
	// Precedence orders the sources, by their names in Sources or "push": each
	// field of a pod is taken from the first source that has it. Those it leaves
	// out follow in the default order: push, cri, k8s, statefile.
	Precedence []string `mapstructure:"precedence"`
	// GracePeriod is how long an ended lease still answers for data from before
	// its end.
	GracePeriod time.Duration `mapstructure:"grace_period"`
	// StartupTimeout bounds the wait for the first answer of every source.
	StartupTimeout time.Duration `mapstructure:"startup_timeout"`
	// Storage is the ID of the storage extension that keeps identities over a
	// restart of the collector; none by default.
	Storage component.ID `mapstructure:"storage"`
	// Page is where people can see who holds which address; nowhere by default.
	Page configoptional.Optional[PageConfig] `mapstructure:"page"`
}

// PageConfig is where the page is served.
type PageConfig struct {
	ServerConfig confighttp.ServerConfig `mapstructure:",squash"`
}

// Unmarshal reads the configuration and refuses unknown keys, which ServerConfig
// ignores, since they can be those of what it is squashed into.
func (cfg *PageConfig) Unmarshal(conf *confmap.Conf) error {
	type strict confighttp.ServerConfig // without its method
	check := strict(cfg.ServerConfig)
	if err := conf.Unmarshal(&check); err != nil {
		return nameKeys(err)
	}
	return cfg.ServerConfig.Unmarshal(conf)
}

// Unmarshal reads the configuration; each source gets its own type's defaults.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error {
	rest := confmap.NewFromStringMap(conf.ToStringMap())
	rest.Delete("sources")
	type plain Config // without this method, which Unmarshal would call again
	if err := rest.Unmarshal((*plain)(cfg)); err != nil {
		return nameKeys(err)
	}
	named, isMap := conf.Get("sources").(map[string]any)
	if !isMap && conf.Get("sources") != nil {
		return fmt.Errorf("sources: want a map of sources by type or type/name, have %v", conf.Get("sources"))
	}
	sources := make(map[component.ID]component.Config, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		var id component.ID
		if err := id.UnmarshalText([]byte(name)); err != nil {
			return fmt.Errorf("sources: %q: %w; want a type (%s), or type/name", name, err, allowedTypes())
		}
		typ, known := sourceTypes[id.Type().String()]
		if !known {
			return fmt.Errorf("sources: %q: unknown type %q; allowed are: %s", name, id.Type(), allowedTypes())
		}
		sub, err := conf.Sub("sources" + confmap.KeyDelimiter + name)
		if err != nil {
			return fmt.Errorf("sources: %q: want a map of its settings, have %v", name, named[name])
		}
		source := typ.newConfig()
		if err := sub.Unmarshal(source); err != nil {
			return fmt.Errorf("sources: %q: %w", name, nameKeys(err))
		}
		sources[id] = source
	}
	cfg.Sources = sources
	return nil
}

var (
	invalidKeys = regexp.MustCompile(`'[\w.]*' has invalid keys: (.*)`)
	parentKeys  = regexp.MustCompile(`'(\w+)' decoding failed`)
)

// nameKeys says which keys are unknown by their path: confmap says it by the name
// of the Go type that lacks them, below one heading for each level.
func nameKeys(err error) error {
	message := err.Error()
	unknown := invalidKeys.FindStringSubmatchIndex(message)
	if unknown == nil {
		return err
	}
	path := ""
	for _, parent := range parentKeys.FindAllStringSubmatch(message[:unknown[0]], -1) {
		path += parent[1] + ": "
	}
	return fmt.Errorf("%sunknown key: %s", path, message[unknown[2]:unknown[3]])
}

// Validate refuses what cannot work. The sources validate themselves.
func (cfg *Config) Validate() error {
	var errs []error
	if cfg.GracePeriod < 0 {
		errs = append(errs, fmt.Errorf("grace_period: %s: must be 0s or more", cfg.GracePeriod))
	}
	if cfg.StartupTimeout < 0 {
		errs = append(errs, fmt.Errorf("startup_timeout: %s: must be 0s (do not wait) or more", cfg.StartupTimeout))
	}
	if cfg.Page.HasValue() {
		addr := cfg.Page.Get().ServerConfig.NetAddr
		errs = append(errs, validateListen(string(addr.Transport), addr.Endpoint))
	}
	allowed := []string{push}
	for id := range cfg.Sources {
		allowed = append(allowed, id.String())
	}
	slices.Sort(allowed[1:])
	for i, name := range cfg.Precedence {
		if !slices.Contains(allowed, name) {
			errs = append(errs, fmt.Errorf("precedence: %q: names no source; allowed are: %s", name, strings.Join(allowed, ", ")))
		} else if slices.Contains(cfg.Precedence[:i], name) {
			errs = append(errs, fmt.Errorf("precedence: %q: named twice", name))
		}
	}
	if n := len(cfg.Sources); n >= maxSources {
		errs = append(errs, fmt.Errorf("sources: %d of them: must be fewer than %d", n, maxSources))
	}
	return errors.Join(errs...)
}

// validateListen refuses where nothing can listen, before the start does without
// saying which key is meant.
func validateListen(transport, endpoint string) error {
	if endpoint == "" {
		return fmt.Errorf("page: endpoint: must be an address to listen on, such as %s", defaultPageEndpoint)
	}
	if transport != "" && !strings.HasPrefix(transport, "tcp") {
		return nil // a path
	}
	_, port, err := net.SplitHostPort(endpoint)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return fmt.Errorf("page: endpoint: %q: must be host:port, such as %s", endpoint, defaultPageEndpoint)
	}
	return nil
}

// maxSources is what the cache can rank.
const maxSources = 256

// order returns the names of all sources, "push" among them, the one that wins
// first.
func (cfg *Config) order() []string {
	rank := func(name string) int {
		typ, _, _ := strings.Cut(name, "/")
		if i := slices.Index(cfg.Precedence, name); i >= 0 {
			return i
		}
		if i := slices.Index(defaultOrder, typ); i >= 0 {
			return len(cfg.Precedence) + i
		}
		return len(cfg.Precedence) + len(defaultOrder)
	}
	names := []string{push}
	for id := range cfg.Sources {
		names = append(names, id.String())
	}
	slices.Sort(names)
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}
