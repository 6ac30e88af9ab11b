// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// restConfig returns how to reach and authenticate to the API server. Its
// errors are about the machine's set-up: no retry mends them.
func restConfig(cfg *Config) (*rest.Config, error) {
	return cfg.AuthType.RESTConfig(cfg.Context, "otelcol-retina/podidentity")
}

// podsClient lists and watches pods in every namespace. It is client-go's REST
// client with a scheme of pods alone: the typed clients link every API group
// that Kubernetes has, 15 MB of binary.
type podsClient struct {
	rest       rest.Interface
	parameters runtime.ParameterCodec
}

// newPodsClient returns a client and the HTTP client below it, whose idle
// connections are the caller's to close.
func newPodsClient(rc *rest.Config) (*podsClient, *http.Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("describe pods to the client: %w", err)
	}
	rc.APIPath, rc.GroupVersion = "/api", &corev1.SchemeGroupVersion
	rc.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return attemptTransport{next} })
	hc, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the connection to %s: %w", rc.Host, err)
	}
	rest, err := rest.RESTClientForConfigAndClient(rc, hc)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the client of %s: %w", rc.Host, err)
	}
	return &podsClient{rest, runtime.NewParameterCodec(scheme)}, hc, nil
}

// List implements podsAPI.
func (c *podsClient) List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	return list, c.rest.Get().Resource("pods").VersionedParams(&opts, c.parameters).Do(ctx).Into(list)
}

// Watch implements podsAPI.
func (c *podsClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.rest.Get().Resource("pods").VersionedParams(&opts, c.parameters).Watch(ctx)
}
