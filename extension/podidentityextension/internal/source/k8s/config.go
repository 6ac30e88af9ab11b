// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"errors"
	"fmt"

	"github.com/otelcol-retina/otelcol-retina/internal/kubeapi"
)

// AuthType is how the source authenticates to the API server.
type AuthType = kubeapi.AuthType

// The ways to authenticate.
const (
	AuthServiceAccount = kubeapi.AuthServiceAccount
	AuthKubeConfig     = kubeapi.AuthKubeConfig
	AuthNone           = kubeapi.AuthNone
)

// Scope is which pods the source watches.
type Scope string

const (
	// ScopeNode watches the pods of one node.
	ScopeNode Scope = "node"
	// ScopeCluster watches every pod.
	ScopeCluster Scope = "cluster"
)

// Config configures the source.
type Config struct {
	// AuthType is how to authenticate; serviceAccount by default.
	AuthType AuthType `mapstructure:"auth_type"`
	// Context overrides the current context of the kubeconfig file.
	Context string `mapstructure:"context"`
	// Scope is which pods to watch; node by default.
	Scope Scope `mapstructure:"scope"`
	// Node is the node's name as Kubernetes knows it; required with scope node.
	Node string `mapstructure:"node"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns the configuration of a collector that runs in a pod
// and watches its own node; Node is left for the user to set.
func NewDefaultConfig() *Config {
	return &Config{AuthType: AuthServiceAccount, Scope: ScopeNode}
}

// Validate reports every key whose value can't work.
func (c *Config) Validate() error {
	var errs []error
	errs = append(errs, c.AuthType.Validate(c.Context))
	switch c.Scope {
	case ScopeNode:
		if c.Node == "" {
			errs = append(errs, fmt.Errorf("node: required with scope %q: the node's name, for example ${env:K8S_NODE_NAME} "+
				"with that variable set from spec.nodeName in the pod's manifest", ScopeNode))
		}
	case ScopeCluster:
		if c.Node != "" {
			errs = append(errs, fmt.Errorf("node: %q has a meaning only with scope %q, which is %q", c.Node, ScopeNode, c.Scope))
		}
	default:
		errs = append(errs, fmt.Errorf("scope: %q is not one of %q, %q", c.Scope, ScopeNode, ScopeCluster))
	}
	return errors.Join(errs...)
}
