// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// The attribute values of the model's enumerations.
var (
	directions = [endpoint.NumDirections]metadata.AttributeNetworkIoDirection{
		endpoint.Receive:  metadata.AttributeNetworkIoDirectionReceive,
		endpoint.Transmit: metadata.AttributeNetworkIoDirectionTransmit,
	}
	tcpFlags = [endpoint.NumTCPFlags]metadata.AttributeTCPFlag{
		endpoint.SYN:    metadata.AttributeTCPFlagSyn,
		endpoint.SYNACK: metadata.AttributeTCPFlagSynAck,
		endpoint.FIN:    metadata.AttributeTCPFlagFin,
		endpoint.RST:    metadata.AttributeTCPFlagRst,
	}
	tcpEvents = [endpoint.NumTCPEvents]metadata.AttributeEvent{
		endpoint.Verified:        metadata.AttributeEventVerified,
		endpoint.TimedOut:        metadata.AttributeEventTimedOut,
		endpoint.Reset:           metadata.AttributeEventReset,
		endpoint.ResetSYN:        metadata.AttributeEventResetSyn,
		endpoint.ClosedFIN:       metadata.AttributeEventClosedFin,
		endpoint.HalfOpenTimeout: metadata.AttributeEventHalfOpenTimeout,
		endpoint.TimeWaitExpired: metadata.AttributeEventTimeWaitExpired,
		endpoint.ActiveOpen:      metadata.AttributeEventActiveOpen,
		endpoint.PassiveOpen:     metadata.AttributeEventPassiveOpen,
		endpoint.AttemptFailed:   metadata.AttributeEventAttemptFailed,
	}
)

// record adds the points of one endpoint, and its resource, to the builder,
// which leaves out what is switched off.
func (s *endpointScraper) record(e *endpoint.Endpoint, r *row, start, now pcommon.Timestamp) {
	b := s.builder
	for d, direction := range directions {
		if column := bytesColumn + d; r.has(column) {
			b.RecordK8sPodNetworkIoDataPoint(now, r.int64(column), e.Interface, direction)
		}
		if column := packetsColumn + d; r.has(column) {
			b.RecordK8sPodNetworkPacketCountDataPoint(now, r.int64(column), e.Interface, direction)
		}
		if column := droppedColumn + d; r.has(column) {
			b.RecordK8sPodNetworkPacketDroppedDataPoint(now, r.int64(column), e.Interface, direction, metadata.AttributeReasonEndpoint)
		}
		if column := aclColumn + d; r.has(column) {
			b.RecordK8sPodNetworkPacketDroppedDataPoint(now, r.int64(column), e.Interface, direction, metadata.AttributeReasonACL)
		}
		if column := errorsColumn + d; r.has(column) {
			b.RecordK8sPodNetworkErrorsDataPoint(now, r.int64(column), e.Interface, direction)
		}
		for f, flag := range tcpFlags {
			if column := flagColumnOf(d, f); r.has(column) {
				b.RecordK8sPodNetworkTCPPacketCountDataPoint(now, r.int64(column), direction, flag)
			}
		}
	}
	for event, attribute := range tcpEvents {
		if column := eventColumn + event; r.has(column) {
			b.RecordK8sPodNetworkTCPConnectionEventsDataPoint(now, r.int64(column), attribute)
		}
	}
	b.EmitForResource(metadata.WithResource(s.resource(e)), metadata.WithStartTimeOverride(start))
}

func (r *row) int64(column int) int64 { return int64(r.values[column]) }

// resource describes an endpoint by what it is known by.
func (s *endpointScraper) resource(e *endpoint.Endpoint) pcommon.Resource {
	rb := s.builder.NewResourceBuilder()
	if len(e.Addresses) > 0 {
		rb.SetK8sPodIP(e.Addresses[0].String())
	}
	if e.NetNS != 0 {
		rb.SetLinuxNetnsInode(int64(e.NetNS))
	}
	if e.HNSEndpoint != "" {
		rb.SetHnsEndpointID(e.HNSEndpoint)
	}
	if e.HNSNamespace != "" {
		rb.SetHnsNamespaceID(e.HNSNamespace)
	}
	if e.Container != "" {
		rb.SetContainerID(e.Container)
	}
	return rb.Emit()
}
