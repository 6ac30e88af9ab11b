// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/component"
)

// Config is the processor's configuration.
type Config struct {
	// Identity is the ID of the podidentity extension that is asked. Required.
	Identity component.ID `mapstructure:"identity"`
	// Labels are the keys of the pod labels to write, each as
	// k8s.pod.label.<key>.
	Labels []string `mapstructure:"labels"`
	// Annotations are the keys of the pod annotations to write, each as
	// k8s.pod.annotation.<key>.
	Annotations []string `mapstructure:"annotations"`
	// KeepKeys keeps the keys that identify an endpoint of hnsstats
	// (hns.endpoint.id, linux.netns.inode and the container.id beside them) on
	// a resource that got its pod's name. Without it they are removed.
	KeepKeys bool `mapstructure:"keep_keys"`
	// OnUnready says what happens to data that comes before the identities are
	// there for the first time.
	OnUnready OnUnready `mapstructure:"on_unready"`
	// Overwrite lets what is found replace attributes that are already there.
	Overwrite bool `mapstructure:"overwrite"`
	// Peers are attributes of data points, log records and spans that hold the
	// address of one end of a flow.
	Peers []PeerConfig `mapstructure:"peers"`
	// Associations say what else than the strong keys tells whose a resource
	// is, first match first. Empty means the attribute k8s.pod.ip.
	Associations []AssociationConfig `mapstructure:"associations"`
}

// OnUnready is what happens to data while the identities are not ready.
type OnUnready string

const (
	// UnreadyPass passes the data on with the names that are known so far.
	UnreadyPass OnUnready = "pass"
	// UnreadyDrop drops the data and counts it.
	UnreadyDrop OnUnready = "drop"
	// UnreadyHold makes the sender wait until the identities are ready.
	UnreadyHold OnUnready = "hold"
)

// PeerConfig is one end of a flow.
type PeerConfig struct {
	// Address is the attribute that holds the peer's address.
	Address string `mapstructure:"address"`
	// Prefix goes before the names of the attributes written, as in
	// source.k8s.pod.name. It may be empty.
	Prefix string `mapstructure:"prefix"`
}

// AssociationConfig says what identifies a resource's pod: all its sources
// together.
type AssociationConfig struct {
	Sources []SourceConfig `mapstructure:"sources"`
}

// SourceConfig is where one key of an association is found.
type SourceConfig struct {
	// From is resource_attribute or connection.
	From string `mapstructure:"from"`
	// Name is the resource attribute's name.
	Name string `mapstructure:"name"`
}

const (
	fromAttribute  = "resource_attribute"
	fromConnection = "connection"
)

func createDefaultConfig() component.Config {
	return &Config{OnUnready: UnreadyPass}
}

// Validate reports every key that is wrong, with its value and what is allowed.
func (c *Config) Validate() error {
	var errs []error
	if c.Identity == (component.ID{}) {
		errs = append(errs, errors.New(`identity: is required: the ID of a podidentity extension, such as podidentity or podidentity/name`))
	}
	switch c.OnUnready {
	case UnreadyPass, UnreadyDrop, UnreadyHold:
	default:
		errs = append(errs, fmt.Errorf("on_unready: %q is not one of pass, drop, hold", c.OnUnready))
	}
	errs = append(errs, validateKeys("labels", c.Labels), validateKeys("annotations", c.Annotations), c.validatePeers())
	for i, a := range c.Associations {
		if err := a.validate(); err != nil {
			errs = append(errs, fmt.Errorf("associations[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func validateKeys(name string, keys []string) error {
	seen := make(map[string]bool, len(keys))
	for i, key := range keys {
		switch {
		case strings.TrimSpace(key) == "":
			return fmt.Errorf("%s[%d]: %q is not the key of one of a pod's %s", name, i, key, name)
		case seen[key]:
			return fmt.Errorf("%s[%d]: %q is listed twice", name, i, key)
		}
		seen[key] = true
	}
	return nil
}

func (c *Config) validatePeers() error {
	prefixes := make(map[string]bool, len(c.Peers))
	for i, p := range c.Peers {
		switch {
		case strings.TrimSpace(p.Address) == "":
			return fmt.Errorf("peers[%d].address: %q is not the name of an attribute", i, p.Address)
		case prefixes[p.Prefix]:
			return fmt.Errorf("peers[%d].prefix: %q is another peer's as well: each one needs its own", i, p.Prefix)
		}
		prefixes[p.Prefix] = true
	}
	return nil
}

func (a AssociationConfig) validate() error {
	if len(a.Sources) == 0 {
		return errors.New("sources: is empty: give at least one {from: resource_attribute, name: …} or {from: connection}")
	}
	var keys [numKeys]bool
	for i, s := range a.Sources {
		if err := s.validate(); err != nil {
			return fmt.Errorf("sources[%d].%w", i, err)
		}
		k := s.source().key
		if keys[k] {
			return fmt.Errorf("sources[%d]: is a second %s: one association takes one of each key; to try one after the other, make two associations", i, k)
		}
		keys[k] = true
	}
	return nil
}

func (s SourceConfig) validate() error {
	switch s.From {
	case fromConnection:
		if s.Name != "" {
			return fmt.Errorf("name: %q: a connection has no name", s.Name)
		}
	case fromAttribute:
		switch s.Name {
		case "":
			return errors.New("name: is required: the name of a resource attribute")
		case attrPodName, attrNamespace:
			return fmt.Errorf("name: %q names a pod and can't find it: use an address, %s, %s, %s or %s", s.Name, attrPodUID, attrContainerID, attrHNSEndpoint, attrNetNS)
		}
	default:
		return fmt.Errorf("from: %q is not one of %s, %s", s.From, fromAttribute, fromConnection)
	}
	return nil
}
