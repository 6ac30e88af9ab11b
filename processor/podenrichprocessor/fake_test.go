// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/metadata"
)

// fakeIdentities is a FAKE of the podidentity extension, for what the processor
// does with each answer: leases in a list, no sources, no grace period. Whatever
// is no matter of one answer is tested with the real one as well: see
// withIdentities.
type fakeIdentities struct {
	component.StartFunc
	component.ShutdownFunc
	leases []lease
	synced chan struct{}
	// labels and annotations are what was wanted.
	labels, annotations []string
}

// lease is a pod's keys from Record.Begin to end; no end is the zero time.
type lease struct {
	podidentity.Record
	end time.Time
}

func newFake(leases ...lease) *fakeIdentities {
	f := &fakeIdentities{leases: leases, synced: make(chan struct{})}
	close(f.synced)
	return f
}

func (f *fakeIdentities) Synced() <-chan struct{} { return f.synced }

// Stopping is never closed: what stops is tested with the real one.
func (f *fakeIdentities) Stopping() <-chan struct{} { return nil }

func (f *fakeIdentities) Want(labels, annotations []string) {
	f.labels, f.annotations = append(f.labels, labels...), append(f.annotations, annotations...)
}

func (f *fakeIdentities) Resolve(q podidentity.Query) (*podidentity.Identity, podidentity.Outcome) {
	if q.At.IsZero() {
		q.At = time.Now()
	}
	q.Address, _ = podidentity.NormalizeAddr(q.Address)
	for _, holds := range []func(podidentity.Record) bool{
		func(r podidentity.Record) bool { return q.UID != "" && r.Identity.UID == q.UID },
		func(r podidentity.Record) bool {
			sandbox := cmp.Or(q.Sandbox, q.Container)
			return sandbox != "" && r.Sandbox == sandbox
		},
		func(r podidentity.Record) bool {
			return slices.ContainsFunc(r.HNSEndpoints, func(id string) bool { return strings.EqualFold(id, q.HNSEndpoint) })
		},
		func(r podidentity.Record) bool { return q.NetNS != 0 && r.NetNS == q.NetNS && !r.HostNetwork },
		func(r podidentity.Record) bool {
			return !r.HostNetwork && slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool { return a == q.Address })
		},
	} {
		if id, o := f.holder(q, holds); o != podidentity.Unknown {
			return id, o
		}
	}
	return nil, podidentity.Unknown
}

// holder returns the pod that had the key at the query's time.
func (f *fakeIdentities) holder(q podidentity.Query, holds func(podidentity.Record) bool) (*podidentity.Identity, podidentity.Outcome) {
	var holder *podidentity.Record
	o := podidentity.Unknown
	for i := range f.leases {
		l := &f.leases[i]
		switch {
		case !holds(l.Record) || q.At.Before(l.Begin):
		case !l.end.IsZero() && !q.At.Before(l.end):
			if o == podidentity.Unknown {
				o = podidentity.Ended
			}
		case o == podidentity.Found:
			return nil, podidentity.Ambiguous
		default:
			holder, o = &l.Record, podidentity.Found
		}
	}
	if o != podidentity.Found {
		return nil, o
	}
	if q.UID != "" && holder.Identity.UID != "" && q.UID != holder.Identity.UID ||
		q.Sandbox != "" && holder.Sandbox != "" && q.Sandbox != holder.Sandbox ||
		q.NetNS != 0 && holder.NetNS != 0 && q.NetNS != holder.NetNS {
		return nil, podidentity.Mismatch
	}
	return &holder.Identity, podidentity.Found
}

// newBareEnricher is a processor of metrics that is not started.
func newBareEnricher(tb testing.TB, cfg *Config) *enricher {
	e, err := newEnricher(processortest.NewNopSettings(metadata.Type), cfg, pipeline.SignalMetrics)
	require.NoError(tb, err)
	return e
}

// notResolver is an extension of another kind.
type notResolver struct {
	component.StartFunc
	component.ShutdownFunc
}

// host is a component.Host with the given extensions.
type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

var identityID = component.MustNewID("podidentity")

// withIdentities runs a test with a node's pods in the fake and in the real
// podidentity extension, which gets them as workloadnet would tell it.
func withIdentities(t *testing.T, leases []lease, test func(*testing.T, component.Component)) {
	t.Run("fake", func(t *testing.T) { test(t, newFake(leases...)) })
	t.Run("podidentity", func(t *testing.T) { test(t, newPublished(t, leases...)) })
}

// newPodidentity starts the real extension.
func newPodidentity(tb testing.TB, conf map[string]any) component.Component {
	factory := podidentityextension.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(tb, confmap.NewFromStringMap(conf).Unmarshal(cfg))
	ext, err := factory.Create(tb.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(tb, err)
	require.NoError(tb, ext.Start(tb.Context(), componenttest.NewNopHost()))
	tb.Cleanup(func() { require.NoError(tb, ext.Shutdown(context.Background())) })
	return ext
}

// newPublished starts the real extension without sources, and tells it the leases.
func newPublished(tb testing.TB, leases ...lease) component.Component {
	ext := newPodidentity(tb, map[string]any{"grace_period": "1h"})
	publisher := ext.(podidentity.Publisher)
	for _, l := range leases {
		require.NoError(tb, publisher.Publish(l.Record))
		if !l.end.IsZero() {
			publisher.End(l.Owner, l.end)
		}
	}
	<-ext.(podidentity.Resolver).Synced()
	return ext
}

// newLifecycleHost is the host of the generated component tests.
func newLifecycleHost() component.Host {
	return host{identityID: newFake()}
}
