// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"context"
	"fmt"
	"math/rand"
	"net"
	"testing"
	"time"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// Shape says where a batch carries the pod's IP.
type Shape string

const (
	OnResource Shape = "resource" // a resource attribute, one IP per resource
	OnPoint    Shape = "point"    // a data point attribute, one IP per point, one resource
)

// Env is what a component gets to start with.
type Env struct {
	Kubeconfig string // path of a kubeconfig file; KUBECONFIG is set to it as well
	Namespace  string // watch this namespace, or the node of that name, only: it has exactly Pods pods
	Pods       int
	Telemetry  component.TelemetrySettings
}

// Component is one contestant. Register it from an init in a file of its own.
type Component struct {
	Name string
	// Key is the attribute that carries the IP ("k8s.pod.ip" if empty).
	Key string
	// Shapes are the shapes it can enrich; it is benchmarked on these only.
	Shapes []Shape
	// Where the verification finds k8s.pod.name afterwards: on the resource
	// if true, on the data point if false.
	EnrichesResource bool
	// Start returns a started component that passes its output to next, and
	// must not return before it knows all the pods. Stop it in tb.Cleanup.
	Start func(tb testing.TB, env Env, next consumer.Metrics) consumer.Metrics
}

var components []Component

func register(c Component) {
	if c.Key == "" {
		c.Key = "k8s.pod.ip"
	}
	components = append(components, c)
}

func (c Component) can(s Shape) bool {
	for _, x := range c.Shapes {
		if x == s {
			return true
		}
	}
	return false
}

// podIP, podName and podUID are those of the API's pods.
func podIP(i int) string   { i++; return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }
func podName(i int) string { return fmt.Sprintf("pod-%05d", i) }
func podUID(i int) string  { return fmt.Sprintf("00000000-0000-4000-9000-%012d", i) }

// missIP is an IP that no pod has.
func missIP(i int) string { return fmt.Sprintf("172.16.%d.%d", i>>8&255, i&255) }

// batch describes a batch of metrics.
type batch struct {
	shape  Shape
	r, d   int     // resources, and data points of each
	pods   int     // IPs are drawn from this many pods
	misses float64 // share of IPs that are no pod's
	key    string
}

// build makes the batch as OTLP protobuf bytes, so that each use can decode a
// fresh one with the slice capacities that a receiver's would have.
func (s batch) build() []byte {
	rnd := rand.New(rand.NewSource(1))
	ip := func() string {
		if rnd.Float64() < s.misses {
			return missIP(rnd.Intn(1 << 16))
		}
		return podIP(rnd.Intn(s.pods))
	}
	md := pmetric.NewMetrics()
	t := pcommon.NewTimestampFromTime(time.Unix(1_800_000_000, 0))
	for i := range s.r {
		rm := md.ResourceMetrics().AppendEmpty()
		a := rm.Resource().Attributes()
		a.PutStr("service.name", fmt.Sprintf("svc-%d", i%50))
		a.PutStr("service.instance.id", fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		a.PutStr("telemetry.sdk.name", "opentelemetry")
		a.PutStr("telemetry.sdk.language", "go")
		a.PutStr("telemetry.sdk.version", "1.46.0")
		if s.shape == OnResource {
			a.PutStr(s.key, ip())
		}
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName("bench")
		m := sm.Metrics().AppendEmpty()
		m.SetName("http.server.requests")
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		for j := range s.d {
			p := sum.DataPoints().AppendEmpty()
			p.SetTimestamp(t)
			p.SetStartTimestamp(t - 60e9)
			p.SetIntValue(int64(j))
			p.Attributes().PutStr("http.request.method", "GET")
			p.Attributes().PutInt("http.response.status_code", int64(200+j%5))
			p.Attributes().PutStr("http.route", fmt.Sprintf("/r/%d", j%7))
			if s.shape == OnPoint {
				p.Attributes().PutStr(s.key, ip())
			}
		}
	}
	b, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(md)
	if err != nil {
		panic(err)
	}
	return b
}

func decode(b []byte) pmetric.Metrics {
	md, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(b)
	if err != nil {
		panic(err)
	}
	return md
}

// sink is the next consumer: it keeps the last batch when told to, and is
// otherwise as cheap as can be.
type sink struct {
	keep bool
	last pmetric.Metrics
}

func (*sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }
func (s *sink) ConsumeMetrics(_ context.Context, md pmetric.Metrics) error {
	if s.keep {
		s.last = md
	}
	return nil
}

// telemetry returns no-op settings, or those of a Collector with its own
// metrics on (an SDK meter provider that nothing reads meanwhile).
func telemetry(sdk bool) component.TelemetrySettings {
	set := componenttest.NewNopTelemetrySettings()
	if sdk {
		set.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	}
	return set
}

func withPeer(ctx context.Context, ip string) context.Context {
	return client.NewContext(ctx, client.Info{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 4317}})
}
