// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/podcidr"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
)

// usePodCIDRs has the node's podCIDRs used as prefixes. Those that were used
// before a restart are used at once: Kubernetes never changes a node's, and pods
// must not have to wait for the API server.
func (e *workloadnetExtension) usePodCIDRs(ctx context.Context, cfg K8sConfig) error {
	rc, err := cfg.AuthType.RESTConfig(cfg.Context, "otelcol-retina/workloadnet")
	if err != nil {
		return fmt.Errorf("k8s: %w", err)
	}
	client, err := podcidr.NewClient(rc, cfg.Node)
	if err != nil {
		return fmt.Errorf("k8s: %w", err)
	}
	kept := e.service.journal.Prefixes()
	if kept != nil {
		if err := e.use(kept); err != nil {
			return err
		}
	}
	e.goroutines.Go(func() {
		defer client.Close()
		e.awaitPodCIDRs(ctx, client, kept)
	})
	return nil
}

// awaitPodCIDRs ends when the node's podCIDRs are known, or with ctx.
func (e *workloadnetExtension) awaitPodCIDRs(ctx context.Context, client *podcidr.Client, kept []netip.Prefix) {
	failing := false
	prefixes, err := client.Await(ctx, func(err error) {
		e.service.addresses.Unknown(err)
		if !failing && kept == nil {
			e.logger.Warn("No workload can be attached until the node's podCIDRs are known; goes on asking", zap.Error(err))
			e.service.note(thePrefixes, err)
		}
		failing = true
	})
	if err != nil {
		return
	}
	switch {
	case slices.Equal(prefixes, kept):
		return
	case kept != nil:
		err = fmt.Errorf("k8s: the node's podCIDRs are %v now and were %v: restart the collector to use them", prefixes, kept)
		e.logger.Error("The node's podCIDRs have changed", zap.Error(err))
		e.service.note(thePrefixes, err)
	default:
		if err = e.use(prefixes); err != nil {
			e.service.addresses.Unknown(err)
			e.logger.Error("The node's podCIDRs cannot be used", zap.Error(err))
			e.service.note(thePrefixes, err)
			return
		}
		e.logger.Info("The node's podCIDRs are known", zap.Stringers("prefixes", prefixes))
		e.service.note(thePrefixes, nil)
	}
	if err := e.service.stored(e.service.journal.PutPrefixes(ctx, prefixes)); err != nil {
		return // logged; they are asked for again at the next start
	}
}

// use has addresses given from prefixes.
func (e *workloadnetExtension) use(prefixes []netip.Prefix) error {
	changed, err := veth.EnableForwarding(prefixes)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		e.logger.Info("Switched on forwarding of packets on this node", zap.Strings("set", changed))
	}
	if err := e.service.claimNodeAddresses(prefixes); err != nil {
		return err
	}
	return e.service.addresses.Use(prefixes)
}

// claimNodeAddresses keeps workloads from getting the node's own addresses, which
// the node would not send to them.
func (s *service) claimNodeAddresses(prefixes []netip.Prefix) error {
	own, err := s.network.NodeAddresses()
	if err != nil {
		return err
	}
	for _, addr := range own {
		if slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			s.addresses.Claim([]netip.Addr{addr})
			s.logger.Info("An address of the prefixes is the node's own: no workload gets it", zap.Stringer("address", addr))
		}
	}
	return nil
}
