// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// enricher is the processor of one signal. After start it is safe for
// concurrent use: nothing in it changes.
type enricher struct {
	cfg      *Config
	logger   *zap.Logger
	counters *counters
	resolver podidentity.Resolver

	associations []association
	connection   bool // an association asks for the connection's address
	naming       naming
	peers        []peer

	unready sync.Once // logs that the identities are not ready
}

// peer is one end of a flow: the attribute that has its address, and what its
// pod is written as.
type peer struct {
	address string
	naming  naming
}

func newEnricher(set processor.Settings, cfg *Config, signal pipeline.Signal) (*enricher, error) {
	counters, err := newCounters(set, signal)
	if err != nil {
		return nil, err
	}
	e := &enricher{
		cfg:      cfg,
		logger:   set.Logger,
		counters: counters,
		naming:   newNaming("", cfg),
	}
	for _, p := range cfg.Peers {
		e.peers = append(e.peers, peer{address: p.Address, naming: newNaming(p.Prefix, cfg)})
	}
	e.associations, e.connection = newAssociations(cfg.Associations)
	return e, nil
}

func (e *enricher) start(_ context.Context, host component.Host) error {
	extensions := host.GetExtensions()
	ext, ok := extensions[e.cfg.Identity]
	if !ok {
		return fmt.Errorf("identity: there is no extension %q under service::extensions; allowed here: %s", e.cfg.Identity, resolvers(extensions))
	}
	e.resolver, ok = ext.(podidentity.Resolver)
	if !ok {
		return fmt.Errorf("identity: extension %q is not a podidentity extension; allowed here: %s", e.cfg.Identity, resolvers(extensions))
	}
	e.resolver.Want(e.cfg.Labels, e.cfg.Annotations)
	return nil
}

// resolvers lists the extensions that identity may name.
func resolvers(extensions map[component.ID]component.Component) string {
	var ids []string
	for id, ext := range extensions {
		if _, ok := ext.(podidentity.Resolver); ok {
			ids = append(ids, id.String())
		}
	}
	if len(ids) == 0 {
		return "none (add a podidentity extension, and list it under service::extensions)"
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

var errStopping = errors.New("the Collector is stopping before the identities are ready (on_unready is hold)")

// admit applies on_unready. It returns nil when the batch of so many items may
// go on, ErrSkipProcessingData when it was dropped, and else the reason why the
// sender has to try again.
func (e *enricher) admit(ctx context.Context, items func() int) error {
	select {
	case <-e.resolver.Synced():
		return nil
	default:
	}
	e.unready.Do(func() {
		e.logger.Info("The identities are not ready yet; until they are, on_unready applies",
			zap.Stringer("identity", e.cfg.Identity), zap.String("on_unready", string(e.cfg.OnUnready)))
	})
	switch e.cfg.OnUnready {
	case UnreadyDrop:
		e.counters.drop(ctx, items())
		return processorhelper.ErrSkipProcessingData
	case UnreadyHold:
		// The wait is bounded by the extension's startup_timeout, and what is
		// held by the senders, each of which waits with one batch. It cannot end
		// with this processor's own Shutdown: that comes after the receivers',
		// and they wait for their batches.
		select {
		case <-e.resolver.Synced():
		case <-e.resolver.Stopping():
			return errStopping
		case <-ctx.Done():
			return fmt.Errorf("identities of extension %q are not ready (on_unready is hold): %w", e.cfg.Identity, ctx.Err())
		}
	}
	return nil
}

// batch is what the resources of one batch share.
type batch struct {
	*enricher
	sender sender
	tally  tally
}

// sender is where a batch came from.
type sender struct {
	addr netip.Addr
	// known is false when nobody pushed the batch. A known sender may still
	// have no usable address.
	known bool
}

func (e *enricher) newBatch(ctx context.Context) batch {
	b := batch{enricher: e}
	if e.connection {
		b.sender = senderOf(ctx)
	}
	return b
}

// resource writes the pod on one resource, which has so many items from so
// long a time.
func (b *batch) resource(attrs pcommon.Map, items int, at timeSpan) {
	keys := readKeys(attrs)
	id, o := b.find(attrs, &keys, at)
	if o == found && keys.named && !b.cfg.Overwrite && b.naming.contradicts(attrs, id) {
		o = conflict
	}
	if o == found {
		if keys.endpoint && !b.cfg.KeepKeys {
			attrs.RemoveIf(isEndpointKey)
		}
		b.naming.write(attrs, id, b.cfg.Overwrite)
	}
	b.tally.resources[o]++
	b.tally.items[o] += int64(items)
}

// item writes the peers of one data point, log record or span.
func (b *batch) item(attrs pcommon.Map, ts pcommon.Timestamp) {
	for i := range b.peers {
		p := &b.peers[i]
		v, ok := attrs.Get(p.address)
		if !ok {
			continue
		}
		b.tally.peers[b.peer(p, attrs, v, ts)]++
	}
}

func (b *batch) peer(p *peer, attrs pcommon.Map, v pcommon.Value, ts pcommon.Timestamp) outcome {
	q := podidentity.Query{}
	if !setKey(&q, keyAddress, v) {
		return unusableKey
	}
	var at timeSpan
	at.add(ts)
	id, o := b.resolve(q, at)
	if o != found {
		return o
	}
	if !b.cfg.Overwrite && p.naming.contradicts(attrs, id) {
		return conflict
	}
	p.naming.write(attrs, id, b.cfg.Overwrite)
	return found
}
