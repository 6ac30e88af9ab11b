// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"errors"
	"fmt"
	"slices"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// aggregated has the columns of each metric that the configuration leaves
// attributes out of. The builder makes one point of several of them, which a plan
// cannot.
func aggregated(cfg metadata.MetricsConfig) (metrics []columns) {
	const directions, events, flags = int(endpoint.NumDirections), int(endpoint.NumTCPEvents), int(endpoint.NumTCPFlags)
	all := metadata.NewDefaultMetricsBuilderConfig().Metrics
	add := func(aggregated bool, of columns) {
		if aggregated {
			metrics = append(metrics, of)
		}
	}
	add(lacks(cfg.K8sPodNetworkErrors.EnabledAttributes, all.K8sPodNetworkErrors.EnabledAttributes),
		span(errorsColumn, directions))
	add(lacks(cfg.K8sPodNetworkIo.EnabledAttributes, all.K8sPodNetworkIo.EnabledAttributes),
		span(bytesColumn, directions))
	add(lacks(cfg.K8sPodNetworkPacketCount.EnabledAttributes, all.K8sPodNetworkPacketCount.EnabledAttributes),
		span(packetsColumn, directions))
	add(lacks(cfg.K8sPodNetworkPacketDropped.EnabledAttributes, all.K8sPodNetworkPacketDropped.EnabledAttributes),
		span(droppedColumn, directions)|span(aclColumn, directions))
	add(lacks(cfg.K8sPodNetworkTCPConnectionEvents.EnabledAttributes, all.K8sPodNetworkTCPConnectionEvents.EnabledAttributes),
		span(eventColumn, events))
	add(lacks(cfg.K8sPodNetworkTCPPacketCount.EnabledAttributes, all.K8sPodNetworkTCPPacketCount.EnabledAttributes),
		span(flagColumn, directions*flags))
	return metrics
}

// lacks reports whether some of all attributes are not among those enabled.
func lacks[A comparable](enabled, all []A) bool {
	return slices.ContainsFunc(all, func(a A) bool { return !slices.Contains(enabled, a) })
}

// span are so many columns from the first one on.
func span(first, number int) columns { return (1<<number - 1) << first }

// withoutPartial is the row without the columns of aggregated metrics that lack
// some that are known: their sum would go down, and up again when those are back,
// as if it had counted all of it anew.
func (r *row) withoutPartial(known columns, metrics []columns) row {
	whole := *r
	for _, of := range metrics {
		if known&of&^r.present != 0 {
			whole.present &^= of
		}
	}
	return whole
}

// attributesTwice says which metrics name an attribute twice.
func attributesTwice(cfg *metadata.MetricsConfig) error {
	return errors.Join(
		twice("k8s.pod.network.errors", cfg.K8sPodNetworkErrors.EnabledAttributes),
		twice("k8s.pod.network.io", cfg.K8sPodNetworkIo.EnabledAttributes),
		twice("k8s.pod.network.packet.count", cfg.K8sPodNetworkPacketCount.EnabledAttributes),
		twice("k8s.pod.network.packet.dropped", cfg.K8sPodNetworkPacketDropped.EnabledAttributes),
		twice("k8s.pod.network.tcp.connection.events", cfg.K8sPodNetworkTCPConnectionEvents.EnabledAttributes),
		twice("k8s.pod.network.tcp.packet.count", cfg.K8sPodNetworkTCPPacketCount.EnabledAttributes),
	)
}

func twice[A comparable](metric string, attributes []A) error {
	for i, a := range attributes {
		if slices.Contains(attributes[:i], a) {
			return fmt.Errorf("metrics::%s::attributes is %v, must name %v once only", metric, attributes, a)
		}
	}
	return nil
}
