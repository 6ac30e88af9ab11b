// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi says how a component reaches the Kubernetes API server and
// authenticates to it, from the settings that the Collector's Kubernetes
// components have in common.
package kubeapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// AuthType is how a component authenticates to the API server. Its values are
// those of the Collector's other Kubernetes components.
type AuthType string

const (
	// AuthServiceAccount uses the token that Kubernetes mounts into the
	// collector's own pod.
	AuthServiceAccount AuthType = "serviceAccount"
	// AuthKubeConfig uses the kubeconfig file that kubectl would: $KUBECONFIG,
	// else ~/.kube/config.
	AuthKubeConfig AuthType = "kubeConfig"
	// AuthNone sends no credentials and does not verify the server.
	AuthNone AuthType = "none"
)

// Validate reports the keys auth_type and context if their values can't work.
func (auth AuthType) Validate(context string) error {
	var errs []error
	switch auth {
	case AuthServiceAccount, AuthKubeConfig, AuthNone:
	default:
		errs = append(errs, fmt.Errorf("auth_type: %q is not one of %q, %q, %q",
			auth, AuthServiceAccount, AuthKubeConfig, AuthNone))
	}
	if context != "" && auth != AuthKubeConfig {
		errs = append(errs, fmt.Errorf("context: %q has a meaning only with auth_type %q, which is %q",
			context, AuthKubeConfig, auth))
	}
	return errors.Join(errs...)
}

// RESTConfig returns how to reach and authenticate to the API server; context
// overrides the kubeconfig file's current one. Its errors are about the machine's
// set-up: no retry mends them.
func (auth AuthType) RESTConfig(context, userAgent string) (*rest.Config, error) {
	var rc *rest.Config
	var err error
	switch auth {
	case AuthKubeConfig:
		rc, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			clientcmd.NewDefaultClientConfigLoadingRules(),
			&clientcmd.ConfigOverrides{CurrentContext: context},
		).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("auth_type %s: read the kubeconfig ($KUBECONFIG, else ~/.kube/config): %w", auth, err)
		}
	case AuthServiceAccount:
		rc, err = rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("auth_type %s: read the service account of the collector's pod "+
				"(outside of a pod use auth_type %s): %w", auth, AuthKubeConfig, err)
		}
	case AuthNone:
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, fmt.Errorf("auth_type %s: find the API server: %w", auth,
				errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set"))
		}
		rc = &rest.Config{
			Host:            "https://" + net.JoinHostPort(host, port),
			TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		}
	default:
		return nil, fmt.Errorf("auth_type %q is unknown", auth)
	}
	if auth != AuthKubeConfig {
		// The API server's service address is inside the cluster, where the
		// proxy that the environment may name for the outside can't reach.
		rc.Proxy = http.ProxyURL(nil)
	}
	// Protobuf costs a fraction of JSON to decode.
	rc.ContentType = runtime.ContentTypeProtobuf
	rc.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	rc.UserAgent = userAgent
	return rc, nil
}
