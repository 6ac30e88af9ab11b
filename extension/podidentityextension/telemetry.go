// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// observe registers the extension's own metrics. All are read when they are
// collected, so that they cost a look-up nothing.
func (e *identityExtension) observe() error {
	return errors.Join(
		e.tel.RegisterExtensionPodidentityPodsCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(e.cache.Pods()))
			return nil
		}),
		e.tel.RegisterExtensionPodidentityLookupsCallback(func(_ context.Context, o metric.Int64Observer) error {
			for outcome := range podidentity.NumOutcomes {
				o.Observe(e.cache.Lookups(outcome), metric.WithAttributes(attribute.String("outcome", outcome.String())))
			}
			return nil
		}),
		e.tel.RegisterExtensionPodidentitySourceUpCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, f := range e.sources {
				up := int64(0)
				if f.hasSynced() && f.failure() == nil {
					up = 1
				}
				o.Observe(up, withSource(f.name))
			}
			if e.pushed.Load() != 0 {
				o.Observe(1, withSource(push))
			}
			return nil
		}),
		e.tel.RegisterExtensionPodidentitySourceLastSuccessAgeCallback(func(_ context.Context, o metric.Float64Observer) error {
			for _, f := range e.sources {
				if age, ok := f.age(); ok {
					o.Observe(age.Seconds(), withSource(f.name))
				}
			}
			if at := e.pushed.Load(); at != 0 {
				o.Observe(max(0, time.Since(time.Unix(0, at)).Seconds()), withSource(push))
			}
			return nil
		}),
		e.tel.RegisterExtensionPodidentitySourceFailuresCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, f := range e.sources {
				o.Observe(f.failures.Load(), withSource(f.name))
			}
			return nil
		}),
		e.tel.RegisterExtensionPodidentityUnconfirmedCallback(func(_ context.Context, o metric.Int64Observer) error {
			if e.cfg.Storage == (component.ID{}) {
				return nil
			}
			for rank, name := range e.names {
				o.Observe(int64(e.cache.Unconfirmed(rank)), withSource(name))
			}
			return nil
		}),
	)
}

func withSource(name string) metric.ObserveOption {
	return metric.WithAttributes(attribute.String("source", name))
}
