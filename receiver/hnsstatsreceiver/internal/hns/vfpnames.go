// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"unicode"
	"unicode/utf8"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// counter is a VFP port counter that is reported. The first are TCP flags, then
// TCP events, both in the order of package endpoint.
type counter uint8

const (
	firstFlag  = counter(0)
	firstEvent = firstFlag + counter(endpoint.NumTCPFlags)
	// aclDropped follows the events that VFP has, which are the first ones.
	aclDropped  = firstEvent + counter(endpoint.TimeWaitExpired) + 1
	numCounters = aclDropped + 1
)

var counterNames = [numCounters]string{
	"SYN packets", "SYN-ACK packets", "FIN packets", "RST packets",
	"TCP connections verified", "TCP connections timed out", "TCP connections reset",
	"TCP connections reset by SYN", "TCP connections closed by FIN", "TCP half open timeouts",
	"TCP connections expired to time wait", "dropped ACL packets",
}

func (c counter) String() string { return counterNames[c] }

// words is the set of known words in a counter's name.
type words uint32

const (
	wSyn words = 1 << iota
	wAck
	wFin
	wReset
	wPacket
	wConnection
	wVerified
	wTimeout
	wTimed
	wOut
	wClosed
	wHalf
	wOpen
	wExpired
	wTime
	wWait
	wDropped
	wACL
	wUnknown
	wNoise words = 0
)

// dictionary has the words that counters are made of, in lower case and without
// a plural's s.
var dictionary = map[string]words{
	"syn": wSyn, "ack": wAck, "synack": wSyn | wAck, "fin": wFin,
	"rst": wReset, "reset": wReset, "packet": wPacket, "pkt": wPacket,
	"connection": wConnection, "conn": wConnection, "verified": wVerified,
	"timeout": wTimeout, "timedout": wTimeout, "timed": wTimed, "out": wOut,
	"closed": wClosed, "close": wClosed, "half": wHalf, "halfopen": wHalf | wOpen, "open": wOpen, "opened": wOpen,
	"expired": wExpired, "time": wTime, "wait": wWait, "timewait": wTime | wWait,
	"dropped": wDropped, "drop": wDropped, "acl": wACL,
	"tcp": wNoise, "by": wNoise, "to": wNoise, "in": wNoise, "due": wNoise, "the": wNoise, "of": wNoise,
	"number": wNoise, "count": wNoise, "counter": wNoise,
}

// namedBy maps the words of a name to the counter. The words must be these and
// no others: "TCP connections reset half TTL" is another counter than "TCP
// connections reset".
var namedBy = map[words]counter{
	wSyn | wPacket:                         firstFlag + counter(endpoint.SYN),
	wSyn | wAck | wPacket:                  firstFlag + counter(endpoint.SYNACK),
	wFin | wPacket:                         firstFlag + counter(endpoint.FIN),
	wReset | wPacket:                       firstFlag + counter(endpoint.RST),
	wConnection | wVerified:                firstEvent + counter(endpoint.Verified),
	wConnection | wTimeout:                 firstEvent + counter(endpoint.TimedOut),
	wConnection | wReset:                   firstEvent + counter(endpoint.Reset),
	wConnection | wReset | wSyn:            firstEvent + counter(endpoint.ResetSYN),
	wConnection | wClosed | wFin:           firstEvent + counter(endpoint.ClosedFIN),
	wHalf | wOpen | wTimeout:               firstEvent + counter(endpoint.HalfOpenTimeout),
	wConnection | wExpired | wTime | wWait: firstEvent + counter(endpoint.TimeWaitExpired),
	wDropped | wACL:                        aclDropped,
}

// counterNamed returns the counter that a name from vfpctrl means, and whether
// it means one. The text and the JSON form write the same counters differently
// ("TCP Connections Reset by SYN", "TcpConnectionsResetBySyn"), and versions of
// vfpctrl differ, so the words of the name decide.
func counterNamed(name string) (counter, bool) {
	w := wordsOf(name)
	switch {
	case w&wTimed != 0 && w&wOut != 0: // "timed out"
		w = w&^(wTimed|wOut) | wTimeout
	case w&wTime != 0 && w&wOut != 0: // "time outs"
		w = w&^(wTime|wOut) | wTimeout
	}
	switch {
	case w&wHalf != 0: // "half open (connection) timeouts"
		w &^= wConnection
	case w&wACL != 0: // "dropped ACL (packets)"
		w &^= wPacket
	}
	c, ok := namedBy[w]
	return c, ok
}

// wordsOf splits a name at whatever is no letter, where lower case is followed by
// upper case, and before the last capital of several ("SYNPackets"), and looks
// the words up.
func wordsOf(name string) words {
	var (
		w    words
		word [24]byte // the longest word of the dictionary is shorter
		n    int
		last rune
	)
	end := func() {
		if n > 1 && word[n-1] == 's' {
			n--
		}
		if n > 0 {
			known, ok := dictionary[string(word[:n])]
			if !ok {
				known = wUnknown
			}
			w |= known
		}
		n = 0
	}
	for i, r := range name {
		switch {
		case r >= utf8.RuneSelf || '0' <= r && r <= '9' || n == len(word):
			return wUnknown
		case !unicode.IsLetter(r):
			end()
			last = 0
			continue
		case unicode.IsUpper(r) && (unicode.IsLower(last) ||
			unicode.IsUpper(last) && i+1 < len(name) && unicode.IsLower(rune(name[i+1]))):
			end()
		}
		word[n] = byte(unicode.ToLower(r))
		n++
		last = r
	}
	end()
	return w
}
