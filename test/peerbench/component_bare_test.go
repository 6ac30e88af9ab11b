// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"net/netip"
	"testing"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func init() {
	register(Component{
		Name:             "bare",
		Shapes:           []Shape{OnResource},
		EnrichesResource: true,
		Start: func(_ testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			b := &bare{next: next, pods: map[netip.Addr]*barePod{}}
			for i := range env.Pods {
				b.pods[netip.MustParseAddr(podIP(i))] = &barePod{podName(i), env.Namespace, podUID(i)}
			}
			return b
		},
	})
}

// bare is no contestant but the least that one can pay: a look-up in a map and
// three attributes. It knows no times, overwrites, counts nothing and can't
// learn of another pod.
type bare struct {
	next consumer.Metrics
	pods map[netip.Addr]*barePod
}

type barePod struct{ name, namespace, uid string }

func (*bare) Capabilities() consumer.Capabilities { return consumer.Capabilities{MutatesData: true} }

func (b *bare) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	for _, rm := range md.ResourceMetrics().All() {
		attrs := rm.Resource().Attributes()
		ip, ok := attrs.Get("k8s.pod.ip")
		if !ok {
			continue
		}
		addr, err := netip.ParseAddr(ip.Str())
		if err != nil {
			continue
		}
		if p := b.pods[addr]; p != nil {
			attrs.EnsureCapacity(attrs.Len() + 3)
			attrs.PutStr("k8s.pod.name", p.name)
			attrs.PutStr("k8s.namespace.name", p.namespace)
			attrs.PutStr("k8s.pod.uid", p.uid)
		}
	}
	return b.next.ConsumeMetrics(ctx, md)
}
