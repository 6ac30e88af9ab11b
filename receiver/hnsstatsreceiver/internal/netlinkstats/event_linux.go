// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"time"

	"golang.org/x/sys/unix"
)

// event is a notification, reduced to what the inventory needs of it.
type event struct {
	kind eventKind
	nsid int32 // of the namespace events
	link link  // of the link events
	at   time.Time
}

type eventKind uint8

const (
	noEvent eventKind = iota
	linkChanged
	linkGone
	namespaceAppeared
	namespaceGone
	namespaceChanged // a link or an address in it, to be asked for again
)

// parseEvent reads a notification. nsid is the namespace that it comes from,
// noNSID for our own. Most notifications are no event.
func parseEvent(m message, nsid int32) (event, error) {
	switch m.kind {
	case unix.RTM_NEWNSID, unix.RTM_DELNSID:
		if nsid != noNSID {
			return event{}, nil // how another namespace numbers its own neighbours
		}
		id, err := parseNSID(m.body)
		if err != nil || id == noNSID {
			return event{}, err
		}
		if m.kind == unix.RTM_DELNSID {
			return event{kind: namespaceGone, nsid: id}, nil
		}
		return event{kind: namespaceAppeared, nsid: id}, nil
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if nsid == noNSID {
			return event{}, nil
		}
		return event{kind: namespaceChanged, nsid: nsid}, nil
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if nsid != noNSID {
			return event{kind: namespaceChanged, nsid: nsid}, nil
		}
		l, err := parseLink(m.body)
		// A bridge tells of its ports too (AF_BRIDGE), in messages that lack the
		// kind and whose RTM_DELLINK means "no longer a port".
		if err != nil || l.family != unix.AF_UNSPEC || l.kind != vethKind {
			return event{}, err
		}
		if m.kind == unix.RTM_DELLINK {
			return event{kind: linkGone, link: l}, nil
		}
		return event{kind: linkChanged, link: l}, nil
	}
	return event{}, nil
}

// maxEvents bounds the log: who does not read for that long starts anew.
const maxEvents = 1 << 14

// eventLog keeps the events since it was last taken, in their order. Of a
// namespace's changes one is as good as many.
type eventLog struct {
	events  []event
	changed map[int32]struct{} // namespaces whose change is in events
	// lost is set when events are missing from the log.
	lost bool
}

func (l *eventLog) add(e event) {
	switch e.kind {
	case noEvent:
		return
	case namespaceChanged:
		if _, ok := l.changed[e.nsid]; ok {
			return
		}
		l.changed[e.nsid] = struct{}{}
	case namespaceAppeared, namespaceGone:
		delete(l.changed, e.nsid) // the next change is another namespace's
	}
	if len(l.events) >= maxEvents {
		l.lose()
		return
	}
	l.events = append(l.events, e)
}

// lose forgets the events: whoever takes the log reads everything again.
func (l *eventLog) lose() {
	l.lost = true
	l.events = nil
	clear(l.changed)
}

// take empties the log. It goes on in spare, which is what it returned before,
// unless that was a rare burst.
func (l *eventLog) take(spare []event) (events []event, lost bool) {
	const usual = 256
	if cap(spare) > usual {
		spare = nil
	}
	clear(spare) // it holds strings
	events, lost = l.events, l.lost
	l.events, l.lost = spare[:0], false
	clear(l.changed)
	return events, lost
}
