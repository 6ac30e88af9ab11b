// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// values are those of a metric's points, by the values of their attributes.
func values(md pmetric.Metrics, name string) map[string]int64 {
	got := map[string]int64{}
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			if m.Name() != name {
				continue
			}
			for _, dp := range m.Sum().DataPoints().All() {
				key := ""
				for _, v := range dp.Attributes().All() {
					key += "/" + v.Str()
				}
				got[key] = dp.IntValue()
			}
		}
	}
	return got
}

// VFP can fail for a while. What its counters are added to would go down then, with
// the same start: a gap is truer.
func TestSumThatLacksAPartForAWhile(t *testing.T) {
	const dropped = "k8s.pod.network.packet.dropped"
	b := newBench(t, func(c *metadata.MetricsBuilderConfig) {
		c.Metrics.K8sPodNetworkPacketDropped.EnabledAttributes = []metadata.K8sPodNetworkPacketDroppedMetricAttributeKey{
			metadata.K8sPodNetworkPacketDroppedMetricAttributeKeyNetworkIoDirection,
		}
	})
	pod := windowsPod
	pod.ACLDropped = &[2]uint64{1000, 2000}
	without := pod
	without.TCP, without.ACLDropped = nil, nil
	whole := map[string]int64{"/receive": 1000, "/transmit": 2001}

	require.Equal(t, map[string]int64{"/receive": 0, "/transmit": 1}, values(b.at(0, without), dropped), "nothing else is known yet")
	require.Equal(t, whole, values(b.at(10, pod), dropped))
	start := b.series["2"].start
	gap := b.at(20, without)
	require.Empty(t, values(gap, dropped))
	require.Equal(t, map[string]int64{"/web-0_eth0/receive": 3000, "/web-0_eth0/transmit": 4000}, values(gap, "k8s.pod.network.io"), "the others are there")
	require.Equal(t, whole, values(b.at(30, pod), dropped))
	require.Equal(t, start, b.series["2"].start)

	// Anew, without that part, it has another start.
	again := without
	again.Bytes, again.Packets, again.Dropped = [2]uint64{1, 1}, [2]uint64{1, 1}, [2]uint64{endpoint.Transmit: 0}
	require.Equal(t, map[string]int64{"/receive": 0, "/transmit": 0}, values(b.at(40, again), dropped))
	require.NotEqual(t, start, b.series["2"].start)
}

// An attribute that is named twice is not two: Validate refuses it, and a scraper
// made all the same has the builder add up.
func TestAttributeNamedTwiceInPlaceOfAnother(t *testing.T) {
	const flag = metadata.K8sPodNetworkTCPPacketCountMetricAttributeKeyTCPFlag
	const name = metadata.K8sPodNetworkIoMetricAttributeKeyNetworkInterfaceName
	b := newBench(t, func(c *metadata.MetricsBuilderConfig) {
		c.Metrics.K8sPodNetworkTCPPacketCount.EnabledAttributes = []metadata.K8sPodNetworkTCPPacketCountMetricAttributeKey{flag, flag}
		c.Metrics.K8sPodNetworkIo.EnabledAttributes = []metadata.K8sPodNetworkIoMetricAttributeKey{name, name}
	})
	md := b.at(0, windowsPod)
	require.Equal(t, map[string]int64{"/syn": 6, "/syn_ack": 8, "/fin": 10, "/rst": 12}, values(md, "k8s.pod.network.tcp.packet.count"))
	require.Equal(t, map[string]int64{"/web-0_eth0": 7000}, values(md, "k8s.pod.network.io"))
}
