// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"fmt"
	"sync"

	"github.com/containernetworking/cni/pkg/types"

	pb "github.com/containerd/go-cni/internal/workloadnetpb"
)

// CNI is go-cni's interface. It is safe for concurrent use. Every call connects
// anew, so that it fails at once while the service is down and works as soon as
// it is back.
type CNI interface {
	// Setup attaches the workload id, whose network namespace is at path. The
	// same call again returns the same result.
	Setup(ctx context.Context, id string, path string, opts ...NamespaceOpts) (*Result, error)
	// SetupSerially is Setup: there is one network.
	SetupSerially(ctx context.Context, id string, path string, opts ...NamespaceOpts) (*Result, error)
	// Remove detaches the workload; one that is not attached is no error.
	Remove(ctx context.Context, id string, path string, opts ...NamespaceOpts) error
	// Check fails, with ErrNotFound, unless the workload is attached.
	Check(ctx context.Context, id string, path string, opts ...NamespaceOpts) error
	// Load sets options. It does not connect.
	Load(opts ...Opt) error
	// Status fails, with ErrCNINotInitialized, unless the service can attach
	// workloads.
	Status() error
	// GetConfig describes the service in a CNI configuration's form.
	GetConfig() *ConfigResult
}

type proxy struct {
	mu     sync.RWMutex
	socket string
	config ConfigResult // without Networks
}

// New returns a CNI that calls the service. It does not connect.
func New(opts ...Opt) (CNI, error) {
	p := &proxy{
		socket: socketFromEnv(),
		config: ConfigResult{
			PluginDirs: []string{DefaultCNIDir}, PluginConfDir: DefaultNetDir,
			PluginMaxConfNum: DefaultMaxConfNum, Prefix: DefaultPrefix,
		},
	}
	if err := p.apply(opts); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *proxy) apply(opts []Opt) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(p); err != nil {
			return err
		}
	}
	return nil
}

func (p *proxy) Load(opts ...Opt) error {
	if err := p.apply(opts); err != nil {
		return fmt.Errorf("cni config load failed: %w: %w", err, ErrLoad)
	}
	return nil
}

// ifName is the interface's name in the workload's namespace.
func (p *proxy) ifName() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.config.Prefix + "0"
}

func (p *proxy) Setup(ctx context.Context, id string, path string, opts ...NamespaceOpts) (*Result, error) {
	n, err := newNamespace(id, path, opts)
	if err != nil {
		return nil, err
	}
	req, err := n.request(p.ifName())
	if err != nil {
		return nil, err
	}
	var answer pb.AttachResponse
	if err := p.call(ctx, callTimeout, methodAttach, req, &answer); err != nil {
		return nil, fmt.Errorf("attach workload %s: %w", id, err)
	}
	result, err := newResult(answer.GetAttachment(), path)
	if err != nil {
		return nil, fmt.Errorf("attach workload %s: %w", id, err)
	}
	return result, nil
}

func (p *proxy) SetupSerially(ctx context.Context, id string, path string, opts ...NamespaceOpts) (*Result, error) {
	return p.Setup(ctx, id, path, opts...)
}

func (p *proxy) Remove(ctx context.Context, id string, _ string, _ ...NamespaceOpts) error {
	if err := p.call(ctx, callTimeout, methodDetach, &pb.DetachRequest{WorkloadId: id}, &pb.DetachResponse{}); err != nil {
		return fmt.Errorf("detach workload %s: %w", id, err)
	}
	return nil
}

func (p *proxy) Check(ctx context.Context, id string, _ string, _ ...NamespaceOpts) error {
	var answer pb.ListResponse
	if err := p.call(ctx, callTimeout, methodList, &pb.ListRequest{WorkloadId: id}, &answer); err != nil {
		return fmt.Errorf("check workload %s: %w", id, err)
	}
	if len(answer.GetAttachments()) == 0 {
		return fmt.Errorf("check workload %s: it is not attached: %w", id, ErrNotFound)
	}
	return nil
}

func (p *proxy) Status() error {
	if err := p.call(context.Background(), statusTimeout, methodStatus, &pb.StatusRequest{}, &pb.StatusResponse{}); err != nil {
		return fmt.Errorf("network status: %w", err)
	}
	return nil
}

const configSource = `{"cniVersion":"1.0.0","name":"workloadnet","plugins":[{"type":"workloadnet"}]}`

func (p *proxy) GetConfig() *ConfigResult {
	p.mu.RLock()
	defer p.mu.RUnlock()
	config := p.config
	config.Networks = []*ConfNetwork{{
		IFName: config.Prefix + "0",
		Config: &NetworkConfList{
			Name: "workloadnet", CNIVersion: "1.0.0", Source: configSource,
			Plugins: []*NetworkConf{{Network: &types.NetConf{Type: "workloadnet"}, Source: `{"type":"workloadnet"}`}},
		},
	}}
	return &config
}
