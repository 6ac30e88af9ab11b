package peerbench

import (
	"context"
	"testing"

	"fmt"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"net/netip"
)

type floor struct {
	mode int
	m    map[netip.Addr]*podidentity.Identity
	next consumer.Metrics
	sum  int
}

func (f *floor) Capabilities() consumer.Capabilities { return consumer.Capabilities{MutatesData: true} }
func (f *floor) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	rms := md.ResourceMetrics()
	for i := range rms.Len() {
		a := rms.At(i).Resource().Attributes()
		v, ok := a.Get("k8s.pod.ip")
		if !ok {
			continue
		}
		if f.mode == 0 {
			f.sum += len(v.Str())
			continue
		}
		addr, _ := netip.ParseAddr(v.Str())
		id := f.m[addr]
		if id == nil {
			f.sum++
			continue
		}
		if f.mode == 1 {
			f.sum += len(id.Name)
			continue
		}
		a.EnsureCapacity(a.Len() + 3)
		a.PutStr("k8s.pod.name", id.Name)
		a.PutStr("k8s.namespace.name", id.Namespace)
		a.PutStr("k8s.pod.uid", id.UID)
	}
	return f.next.ConsumeMetrics(ctx, md)
}

func init() {
	for i, n := range []string{"floor0", "floor1", "floor2"} {
		register(Component{Name: n, Shapes: []Shape{OnResource}, EnrichesResource: true, Start: func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics {
			m := map[netip.Addr]*podidentity.Identity{}
			for i := range env.Pods {
				m[netip.MustParseAddr(podIP(i))] = &podidentity.Identity{
					Name: podName(i), Namespace: env.Namespace, UID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i),
				}
			}
			return &floor{mode: i, m: m, next: next}
		}})
	}
}
