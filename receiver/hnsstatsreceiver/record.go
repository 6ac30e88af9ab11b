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

// record adds the data points of one endpoint to the builder, which leaves out
// those of the metrics that are switched off.
func (s *endpointScraper) record(e *endpoint.Endpoint, c *endpoint.Counters, now pcommon.Timestamp) {
	b := s.builder
	for d, direction := range directions {
		b.RecordK8sPodNetworkIoDataPoint(now, int64(c.Bytes[d]), e.Interface, direction)
		b.RecordK8sPodNetworkPacketCountDataPoint(now, int64(c.Packets[d]), e.Interface, direction)
		b.RecordK8sPodNetworkPacketDroppedDataPoint(now, int64(c.Dropped[d]), e.Interface, direction, metadata.AttributeReasonEndpoint)
		if c.ACLDropped != nil {
			b.RecordK8sPodNetworkPacketDroppedDataPoint(now, int64(c.ACLDropped[d]), e.Interface, direction, metadata.AttributeReasonACL)
		}
		if c.Errors != nil {
			b.RecordK8sPodNetworkErrorsDataPoint(now, int64(c.Errors[d]), e.Interface, direction)
		}
	}
	if c.TCP != nil {
		s.recordTCP(c.TCP, now)
	}
}

func (s *endpointScraper) recordTCP(t *endpoint.TCP, now pcommon.Timestamp) {
	for event, attribute := range tcpEvents {
		if t.HasEvent[event] {
			s.builder.RecordK8sPodNetworkTCPConnectionEventsDataPoint(now, int64(t.Events[event]), attribute)
		}
	}
	if t.Packets == nil {
		return
	}
	for d, direction := range directions {
		for f, flag := range tcpFlags {
			s.builder.RecordK8sPodNetworkTCPPacketCountDataPoint(now, int64(t.Packets[d][f]), direction, flag)
		}
	}
}
