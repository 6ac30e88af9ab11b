// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"math"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// row is an endpoint's counters, one beside the other.
type row struct {
	values [numColumns]uint64
	// present has a bit for each column that the counters have.
	present columns
}

type columns uint32

// The columns, those of one family together.
const (
	bytesColumn   = 0
	packetsColumn = bytesColumn + int(endpoint.NumDirections)
	droppedColumn = packetsColumn + int(endpoint.NumDirections)
	errorsColumn  = droppedColumn + int(endpoint.NumDirections)
	aclColumn     = errorsColumn + int(endpoint.NumDirections)
	eventColumn   = aclColumn + int(endpoint.NumDirections)
	flagColumn    = eventColumn + int(endpoint.NumTCPEvents)
	numColumns    = flagColumn + int(endpoint.NumDirections)*int(endpoint.NumTCPFlags)
)

// flagColumnOf is the column of the segments with a flag in a direction.
func flagColumnOf(direction, flag int) int {
	return flagColumn + direction*int(endpoint.NumTCPFlags) + flag
}

func (r *row) has(column int) bool { return r.present&(1<<column) != 0 }

// put sets a column. HNS has -1 for a counter at times, which is no count: the
// column is not present then, as nothing that a point of 63 bits can't hold is.
func (r *row) put(column int, value uint64) {
	if value > math.MaxInt64 {
		return
	}
	r.values[column] = value
	r.present |= 1 << column
}

func (r *row) putPair(column int, pair *[endpoint.NumDirections]uint64) {
	if pair == nil {
		return
	}
	for d, value := range pair {
		r.put(column+d, value)
	}
}

// set makes the row that of c.
func (r *row) set(c *endpoint.Counters) {
	r.present = 0
	r.putPair(bytesColumn, &c.Bytes)
	r.putPair(packetsColumn, &c.Packets)
	r.putPair(droppedColumn, &c.Dropped)
	r.putPair(errorsColumn, c.Errors)
	r.putPair(aclColumn, c.ACLDropped)
	if c.TCP == nil {
		return
	}
	for event, has := range c.TCP.HasEvent {
		if has {
			r.put(eventColumn+event, c.TCP.Events[event])
		}
	}
	if c.TCP.Packets == nil {
		return
	}
	for d := range c.TCP.Packets {
		for flag, value := range c.TCP.Packets[d] {
			if c.TCP.HasPacket[flag] {
				r.put(flagColumnOf(d, flag), value)
			}
		}
	}
}

// totals are the last known values of an endpoint's columns. What is not
// present for a while, because a part of the counters could not be read, stays
// known until the series starts anew.
type totals struct {
	values [numColumns]uint64
	known  columns
}

// progress is how a row relates to the one before.
type progress uint8

const (
	continued progress = iota
	widened            // columns came that were not known, with a past
	restarted          // all columns have begun anew
	confused           // some of them have
)

// advance takes in a row.
func (t *totals) advance(r *row) progress {
	back, ahead, late := false, false, false
	for column, value := range r.values {
		if !r.has(column) {
			continue
		}
		switch before := t.values[column]; {
		case t.known&(1<<column) == 0:
			late = late || value > 0
		case before > 0:
			back = back || value < before
			ahead = ahead || value >= before
		}
		t.values[column] = value
	}
	t.known |= r.present
	switch {
	case back && (ahead || late):
		return confused
	case back:
		return restarted
	case late:
		return widened
	}
	return continued
}
