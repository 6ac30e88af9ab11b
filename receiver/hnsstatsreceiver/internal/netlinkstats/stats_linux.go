// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// counters are the head of struct rtnl_link_stats64 (linux/if_link.h), as the
// link itself counts.
type counters struct {
	rxPackets, txPackets uint64
	rxBytes, txBytes     uint64
	rxErrors, txErrors   uint64
	rxDropped, txDropped uint64
}

func parseCounters(b []byte) (counters, error) {
	if len(b) < sizeofCounters {
		return counters{}, fmt.Errorf("%w: counters of %d bytes", errMalformed, len(b))
	}
	at := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	return counters{
		rxPackets: at(0), txPackets: at(1),
		rxBytes: at(2), txBytes: at(3),
		rxErrors: at(4), txErrors: at(5),
		rxDropped: at(6), txDropped: at(7),
	}, nil
}

// parseStats reads an RTM_NEWSTATS message: a link and its counters.
func parseStats(b []byte) (index int32, c counters, err error) {
	if len(b) < sizeofIfStatsMsg {
		return 0, counters{}, fmt.Errorf("%w: stats of %d bytes", errMalformed, len(b))
	}
	index = int32(binary.NativeEndian.Uint32(b[4:]))
	for rest := b[sizeofIfStatsMsg:]; len(rest) > 0; {
		var a attribute
		if a, rest, err = nextAttribute(rest); err != nil {
			return 0, counters{}, err
		}
		if a.kind == unix.IFLA_STATS_LINK_64 {
			c, err = parseCounters(a.value)
			return index, c, err
		}
	}
	return 0, counters{}, fmt.Errorf("%w: stats of link %d without IFLA_STATS_LINK_64", errMalformed, index)
}

// statsRequest asks for the counters of every link of our namespace.
func statsRequest(buf []byte) request {
	const linkCounters = 1 << (unix.IFLA_STATS_LINK_64 - 1) // IFLA_STATS_FILTER_BIT, linux/if_link.h
	return newRequest(buf, unix.RTM_GETSTATS, unix.NLM_F_DUMP).
		fixed(0, 0, 0, 0, 0, 0, 0, 0).uint32(linkCounters)
}
