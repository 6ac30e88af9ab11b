// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/podcidr"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
)

// podCIDRs follows the podCIDRs of the node.
type podCIDRs struct {
	*workloadnetExtension
	client *podcidr.Client
	node   string
	used   []netip.Prefix // nil if none are
	kept   []netip.Prefix // in the storage
}

// usePodCIDRs has the node's podCIDRs used as prefixes. Those that were used
// before a restart are used at once, until the API server contradicts: pods must
// not have to wait for it.
func (e *workloadnetExtension) usePodCIDRs(ctx context.Context, cfg K8sConfig) error {
	rc, err := cfg.AuthType.RESTConfig(cfg.Context, "otelcol-retina/workloadnet")
	if err != nil {
		return fmt.Errorf("k8s: %w", err)
	}
	client, err := podcidr.NewClient(rc, cfg.Node)
	if err != nil {
		return fmt.Errorf("k8s: %w", err)
	}
	kept := e.service.journal.Prefixes(cfg.Node)
	if kept != nil {
		if err := e.use(kept); err != nil {
			return err
		}
	}
	p := &podCIDRs{workloadnetExtension: e, client: client, node: cfg.Node, used: kept, kept: kept}
	e.goroutines.Go(func() {
		defer client.Close()
		p.follow(ctx)
	})
	return nil
}

// follow ends with ctx. It goes on asking when they are known: a node that is
// deleted and registered anew has others, and its own may be another node's.
func (p *podCIDRs) follow(ctx context.Context) {
	for {
		prefixes, err := p.client.Await(ctx, func(err error) { p.failed(ctx, err) })
		if err != nil {
			return
		}
		p.are(ctx, prefixes)
		select {
		case <-time.After(p.recheck/2 + rand.N(p.recheck)):
		case <-ctx.Done():
			return
		}
	}
}

// failed takes down why the podCIDRs can't be told. Those in use stay so while
// nothing says that they are not the node's any more.
func (p *podCIDRs) failed(ctx context.Context, err error) {
	if p.used != nil && (errors.Is(err, podcidr.ErrNone) || errors.Is(err, podcidr.ErrNoNode)) {
		p.logger.Error("The node has lost its podCIDRs: no workload can be attached until it has some again", zap.Stringers("lost", p.used), zap.Error(err))
		p.withdraw(ctx, err)
		return
	}
	before := p.service.note(thePrefixes, err)
	switch {
	case p.used == nil:
		p.service.addresses.Withdraw(err)
		if before == nil {
			p.logger.Warn("No workload can be attached until the node's podCIDRs are known; goes on asking", zap.Error(err))
		}
	case before == nil:
		p.logger.Warn("Cannot find out whether the node's podCIDRs have changed: those known are used meanwhile; goes on asking",
			zap.Stringers("prefixes", p.used), zap.Error(err))
	}
}

// are takes over what the API server says.
func (p *podCIDRs) are(ctx context.Context, prefixes []netip.Prefix) {
	changed := !slices.Equal(prefixes, p.used)
	if changed {
		if err := p.use(prefixes); err != nil {
			if before := p.withdraw(ctx, err); before == nil || before.Error() != err.Error() {
				p.logger.Error("The node's podCIDRs cannot be used", zap.Stringers("prefixes", prefixes), zap.Error(err))
			}
			return
		}
		if p.used != nil {
			p.logger.Warn("The node's podCIDRs have changed: workloads get their addresses from the new ones from now on, those attached keep theirs",
				zap.Stringers("were", p.used))
		}
		p.used = prefixes
	}
	if before := p.service.note(thePrefixes, nil); changed || before != nil {
		p.logger.Info("The node's podCIDRs are known", zap.Stringers("prefixes", prefixes))
	}
	p.keep(ctx)
}

// withdraw has no addresses given, and returns what was wrong before.
func (p *podCIDRs) withdraw(ctx context.Context, why error) (before error) {
	p.service.addresses.Withdraw(why)
	p.used = nil
	p.keep(ctx)
	return p.service.note(thePrefixes, why)
}

// keep stores what is in use for the next start. If the storage fails, it is tried
// again when the API server is asked again.
func (p *podCIDRs) keep(ctx context.Context) {
	if slices.Equal(p.used, p.kept) {
		return
	}
	if p.service.stored(p.service.journal.PutPrefixes(ctx, p.node, p.used)) == nil {
		p.kept = p.used
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
	own, err := e.service.nodeAddressesIn(prefixes)
	if err != nil {
		return err
	}
	return e.service.addresses.Use(prefixes, own...)
}

// nodeAddressesIn are the node's own addresses in prefixes. No workload may get one:
// the node would not send to it.
func (s *service) nodeAddressesIn(prefixes []netip.Prefix) (own []netip.Addr, err error) {
	all, err := s.network.NodeAddresses()
	if err != nil {
		return nil, err
	}
	for _, addr := range all {
		if slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			own = append(own, addr)
			s.logger.Info("An address of the prefixes is the node's own: no workload gets it", zap.Stringer("address", addr))
		}
	}
	return own, nil
}
