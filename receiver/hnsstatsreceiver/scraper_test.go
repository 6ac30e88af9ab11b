// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"context"
	"errors"
	"flag"
	"maps"
	"net/netip"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/filter"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/scraper/scrapererror"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint/endpointtest"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

var update = flag.Bool("update", false, "write the golden files anew")

// epoch is when the tests' clock starts.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bench is a scraper on a Source for tests, with a clock that the test sets.
type bench struct {
	*testing.T
	*endpointScraper
	source *endpointtest.Source
	clock  time.Time
}

func newBench(t *testing.T, configure ...func(*metadata.MetricsBuilderConfig)) *bench {
	cfg := metadata.NewDefaultMetricsBuilderConfig()
	for _, c := range configure {
		c(&cfg)
	}
	b := &bench{T: t, source: &endpointtest.Source{}, clock: epoch}
	b.endpointScraper = newScraper(cfg, b.source, &outages{logger: zap.NewNop()}, receivertest.NewNopSettings(metadata.Type))
	b.now = func() time.Time { return b.clock }
	require.NoError(t, b.start(t.Context(), componenttest.NewNopHost()))
	return b
}

// at scrapes some seconds after epoch.
func (b *bench) at(seconds int, sights ...endpointtest.Sight) pmetric.Metrics {
	b.Helper()
	b.clock = epoch.Add(time.Duration(seconds) * time.Second)
	b.source.Sights = sights
	metrics, err := b.scrape(b.Context())
	require.NoError(b, err)
	return metrics
}

var (
	linuxPod = endpointtest.Sight{
		Endpoint: endpoint.Endpoint{
			ID: "1", Interface: "eth0", NetNS: 4026532246, Created: epoch.Add(-time.Minute),
			Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd01::2")},
		},
		Counters: endpoint.Counters{
			Bytes: [2]uint64{1000, 2000}, Packets: [2]uint64{10, 20}, Dropped: [2]uint64{1, 2}, Errors: &[2]uint64{3, 4},
			TCP: &endpoint.TCP{
				Events:   [endpoint.NumTCPEvents]uint64{endpoint.ActiveOpen: 5, endpoint.PassiveOpen: 6, endpoint.AttemptFailed: 7, endpoint.Reset: 8},
				HasEvent: [endpoint.NumTCPEvents]bool{endpoint.ActiveOpen: true, endpoint.PassiveOpen: true, endpoint.AttemptFailed: true, endpoint.Reset: true},
			},
		},
	}
	windowsPod = endpointtest.Sight{
		Endpoint: endpoint.Endpoint{
			ID: "2", Interface: "web-0_eth0", HNSEndpoint: "1a2b3c4d-0001-4000-8000-00000000aa01", Container: "1f206290",
			HNSNamespace: "0a0b0c0d-1111-4222-8333-00000000bb01",
			Addresses:    []netip.Addr{netip.MustParseAddr("10.9.0.5")}, Created: epoch.Add(-time.Hour),
		},
		Counters: endpoint.Counters{
			Bytes: [2]uint64{3000, 4000}, Packets: [2]uint64{30, 40}, Dropped: [2]uint64{0, 1}, ACLDropped: &[2]uint64{2, 3},
			TCP: &endpoint.TCP{
				Packets:   &[2][endpoint.NumTCPFlags]uint64{{1, 2, 3, 4}, {5, 6, 7, 8}},
				HasPacket: [endpoint.NumTCPFlags]bool{true, true, true, true},
				Events:    [endpoint.NumTCPEvents]uint64{11, 12, 13, 14, 15, 16, 17},
				HasEvent: [endpoint.NumTCPEvents]bool{
					endpoint.Verified: true, endpoint.TimedOut: true, endpoint.Reset: true, endpoint.ResetSYN: true,
					endpoint.ClosedFIN: true, endpoint.HalfOpenTimeout: true, endpoint.TimeWaitExpired: true,
				},
			},
		},
	}
	barePod = endpointtest.Sight{
		Endpoint: endpoint.Endpoint{ID: "3", Interface: "net1", NetNS: 4026532300, Created: epoch},
		Counters: endpoint.Counters{Errors: &[2]uint64{}},
	}
)

func TestGolden(t *testing.T) {
	off := func(c *metadata.MetricsBuilderConfig) {
		c.Metrics.K8sPodNetworkErrors.Enabled = false
		c.Metrics.K8sPodNetworkTCPConnectionEvents.Enabled = false
		c.Metrics.K8sPodNetworkTCPPacketCount.Enabled = false
		c.ResourceAttributes.LinuxNetnsInode.Enabled = false
	}
	for name, test := range map[string]struct {
		sights    []endpointtest.Sight
		configure func(*metadata.MetricsBuilderConfig)
	}{
		"linux":        {sights: []endpointtest.Sight{linuxPod, barePod}},
		"windows":      {sights: []endpointtest.Sight{windowsPod}},
		"switched_off": {sights: []endpointtest.Sight{linuxPod}, configure: off},
		"no_endpoints": {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if test.configure != nil {
				b = newBench(t, test.configure)
			}
			got := b.at(0, test.sights...)
			path := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				require.NoError(t, golden.WriteMetrics(t, path, got, golden.SkipMetricTimestampNormalization()))
			}
			want, err := golden.ReadMetrics(path)
			require.NoError(t, err)
			requireEqual(t, want, got)
			requireEqual(t, want, b.at(0, test.sights...)) // by the plans made the first time

			built := newBench(t)
			if test.configure != nil {
				built = newBench(t, test.configure)
			}
			built.reaggregates = true // no plans
			requireEqual(t, want, built.at(0, test.sights...))
		})
	}
}

func requireEqual(t *testing.T, want, got pmetric.Metrics) {
	t.Helper()
	require.NoError(t, pmetrictest.CompareMetrics(want, got,
		pmetrictest.IgnoreResourceMetricsOrder(), pmetrictest.IgnoreMetricsOrder(), pmetrictest.IgnoreMetricDataPointsOrder()))
}

func TestAttributesSwitchedOff(t *testing.T) {
	b := newBench(t, func(c *metadata.MetricsBuilderConfig) {
		c.Metrics.K8sPodNetworkIo.EnabledAttributes = nil
	})
	for range 2 {
		md := b.at(0, linuxPod)
		require.Equal(t, 1, md.ResourceMetrics().Len())
		for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			if m.Name() == "k8s.pod.network.io" {
				require.Equal(t, 1, m.Sum().DataPoints().Len())
				require.EqualValues(t, 1000+2000, m.Sum().DataPoints().At(0).IntValue())
				require.Equal(t, linuxPod.Created, m.Sum().DataPoints().At(0).StartTimestamp().AsTime())
			}
		}
	}
}

func TestResourcesLeftOut(t *testing.T) {
	b := newBench(t, func(c *metadata.MetricsBuilderConfig) {
		c.ResourceAttributes.K8sPodIP.MetricsExclude = []filter.Config{{Strict: "10.1.0.2"}}
	})
	for range 2 {
		md := b.at(0, linuxPod, windowsPod)
		require.Equal(t, 1, md.ResourceMetrics().Len())
		ip, _ := md.ResourceMetrics().At(0).Resource().Attributes().Get("k8s.pod.ip")
		require.Equal(t, "10.9.0.5", ip.Str())
	}
}

func TestOneResourceForOneEndpoint(t *testing.T) {
	b := newBench(t)
	md := b.at(0, linuxPod, windowsPod, barePod)
	require.Equal(t, 3, md.ResourceMetrics().Len())
	require.Equal(t, 1, b.at(10, linuxPod).ResourceMetrics().Len(), "a gone endpoint stops at once")
	require.Len(t, b.series, 1, "and nothing of it is kept")
}

// failing is a failure of one endpoint.
func failing(id string) error {
	return errors.Join(&endpoint.Error{Endpoint: "veth" + id, ID: id, Err: errors.New("no answer")})
}

func TestOneEndpointFails(t *testing.T) {
	b := newBench(t)
	pod := windowsPod
	pod.Created = time.Time{} // a new series would start anew
	b.at(0, linuxPod, pod)
	start := b.series["2"].start

	b.clock = epoch.Add(10 * time.Second)
	b.source.Sights, b.source.ReadErr = []endpointtest.Sight{linuxPod}, failing("2")
	md, err := b.scrape(t.Context())
	require.ErrorContains(t, err, "endpoint veth2: no answer")
	var partial scrapererror.PartialScrapeError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, 1, partial.Failed)
	require.Equal(t, 1, md.ResourceMetrics().Len(), "the others are there")

	b.source.ReadErr = nil
	b.at(20, linuxPod, pod)
	require.Equal(t, start, b.series["2"].start, "it goes on where it was")
}

// Points say what the endpoint is now, whichever part of it has changed.
func TestEndpointChanges(t *testing.T) {
	for attribute, test := range map[string]struct {
		change func(*endpoint.Endpoint)
		want   any
	}{
		"k8s.pod.ip":             {func(e *endpoint.Endpoint) { e.Addresses = []netip.Addr{netip.MustParseAddr("10.9.0.6")} }, "10.9.0.6"},
		"linux.netns.inode":      {func(e *endpoint.Endpoint) { e.NetNS = 4026532999 }, int64(4026532999)},
		"hns.endpoint.id":        {func(e *endpoint.Endpoint) { e.HNSEndpoint = "another" }, "another"},
		"hns.namespace.id":       {func(e *endpoint.Endpoint) { e.HNSNamespace = "another" }, "another"},
		"container.id":           {func(e *endpoint.Endpoint) { e.Container = "another" }, "another"},
		"network.interface.name": {func(e *endpoint.Endpoint) { e.Interface = "another" }, "another"},
	} {
		t.Run(attribute, func(t *testing.T) {
			b := newBench(t)
			pod := windowsPod
			pod.NetNS = 4026532001
			b.at(0, pod)
			test.change(&pod.Endpoint)
			rm := b.at(10, pod).ResourceMetrics().At(0)
			said := rm.Resource().Attributes().AsRaw()
			for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
				if m.Name() == "k8s.pod.network.io" {
					maps.Copy(said, m.Sum().DataPoints().At(0).Attributes().AsRaw())
				}
			}
			require.Equal(t, test.want, said[attribute])
		})
	}
}

// An endpoint that fails on every scrape, and never had an ID, must not keep
// those that are gone.
func TestGoneEndpointsAreForgottenWhileOneFails(t *testing.T) {
	b := newBench(t)
	b.source.ReadErr = failing("")
	for i := range 100 {
		pod := linuxPod
		pod.ID = strconv.Itoa(i)
		b.source.Sights = []endpointtest.Sight{pod}
		_, err := b.scrape(t.Context())
		require.Error(t, err)
		require.Len(t, b.series, 1)
	}
}

func TestManyEndpointsFail(t *testing.T) {
	b := newBench(t)
	var errs []error
	for _, name := range []string{"g", "f", "e", "d", "c", "b", "a"} {
		errs = append(errs, &endpoint.Error{Endpoint: name, ID: name, Err: errors.New("no answer")})
	}
	b.source.ReadErr = errors.Join(errs...)
	_, err := b.scrape(t.Context())
	require.EqualError(t, err, `endpoint a: no answer
endpoint b: no answer
endpoint c: no answer
endpoint d: no answer
endpoint e: no answer
and 2 more endpoints`)
}

func TestTheReadFails(t *testing.T) {
	b := newBench(t)
	host := &statusHost{Host: componenttest.NewNopHost()}
	b.host = host
	b.at(0, linuxPod)
	start := b.series["1"].start
	b.source.ReadErr = errors.New("no netlink today")
	for range 2 {
		md, err := b.scrape(t.Context())
		require.ErrorContains(t, err, "read pod endpoints: no netlink today")
		require.False(t, scrapererror.IsPartialScrapeError(err))
		require.Zero(t, md.ResourceMetrics().Len())
	}
	require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, host.reported, "said once")
	b.source.ReadErr = nil
	require.Equal(t, 1, b.at(30, linuxPod).ResourceMetrics().Len())
	require.Equal(t, start, b.series["1"].start)
	require.Equal(t, componentstatus.StatusOK, host.reported[1])
}

type statusHost struct {
	component.Host
	reported []componentstatus.Status
}

func (h *statusHost) Report(e *componentstatus.Event) { h.reported = append(h.reported, e.Status()) }

func TestTheSourceDoesNotStart(t *testing.T) {
	b := newBench(t)
	b.source.StartErr = errors.New("CAP_NET_ADMIN is missing")
	require.ErrorContains(t, b.start(context.Background(), componenttest.NewNopHost()), "CAP_NET_ADMIN is missing")
}
