// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package podcidr learns from the Kubernetes API which prefixes a node's pods
// have their addresses from.
package podcidr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	// timeout bounds one request.
	timeout = 10 * time.Second
	// firstPause and longestPause are between two requests.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
)

var (
	// ErrNone: the node is there, and no podCIDR has been assigned to it yet.
	ErrNone = errors.New("it has no podCIDR yet")
	// ErrNoNode: the API server says that there is no such node.
	ErrNoNode = errors.New("there is no such node")
)

// Client asks for one node. It needs the right to get it, and no other.
type Client struct {
	node string
	http *http.Client
	rest *rest.RESTClient
}

// NewClient returns a client that reaches the API server as rc says.
func NewClient(rc *rest.Config, node string) (*Client, error) {
	rc = rest.CopyConfig(rc)
	rc.GroupVersion = &schema.GroupVersion{Version: "v1"}
	rc.APIPath = "/api"
	scheme := runtime.NewScheme() // of what a refusal is made of, and nothing else
	metav1.AddToGroupVersion(scheme, *rc.GroupVersion)
	rc.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// JSON: of the node's fields, one is wanted.
	rc.ContentType, rc.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	hc, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to %s: %w", rc.Host, err)
	}
	client, err := rest.RESTClientForConfigAndClient(rc, hc)
	if err != nil {
		return nil, fmt.Errorf("set up the client of %s: %w", rc.Host, err)
	}
	return &Client{node: node, http: hc, rest: client}, nil
}

// Close closes the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get returns the node's prefixes. The error wraps ErrNone if it has none yet, and
// ErrNoNode if it is not there.
func (c *Client) Get(ctx context.Context) ([]netip.Prefix, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result := c.rest.Get().Resource("nodes").Name(c.node).Do(ctx)
	err := result.Error() // Raw's lacks the server's reason
	// What is not an API server may answer 404, too.
	if apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) {
		return nil, fmt.Errorf("get node %q: %w: %w", c.node, ErrNoNode, err)
	}
	if err != nil {
		return nil, fmt.Errorf("get node %q: %w", c.node, err)
	}
	body, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("get node %q: %w", c.node, err)
	}
	prefixes, err := parse(body)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", c.node, err)
	}
	return prefixes, nil
}

// parse reads spec.podCIDRs of a Node (core/v1).
func parse(node []byte) ([]netip.Prefix, error) {
	var n struct {
		Spec struct {
			PodCIDRs []string `json:"podCIDRs"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(node, &n); err != nil {
		return nil, err
	}
	if len(n.Spec.PodCIDRs) == 0 {
		return nil, ErrNone
	}
	prefixes := make([]netip.Prefix, 0, len(n.Spec.PodCIDRs))
	for _, cidr := range n.Spec.PodCIDRs {
		p, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("spec.podCIDRs: %w", err)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}

// Await asks until the node has prefixes, and returns them; failed is called with
// what there was instead, each time. It fails only when ctx is done.
func (c *Client) Await(ctx context.Context, failed func(error)) ([]netip.Prefix, error) {
	pause := firstPause
	for {
		prefixes, err := c.Get(ctx)
		if err == nil {
			return prefixes, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failed(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
}
