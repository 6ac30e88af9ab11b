// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// parseNSID reads an RTM_NEWNSID or RTM_DELNSID message: the id that our
// namespace has for another one, noNSID if it has none.
func parseNSID(b []byte) (int32, error) {
	if len(b) < sizeofRtGenMsg {
		return noNSID, fmt.Errorf("%w: a namespace id of %d bytes", errMalformed, len(b))
	}
	for rest := b[sizeofRtGenMsg:]; len(rest) > 0; {
		var a attribute
		var err error
		if a, rest, err = nextAttribute(rest); err != nil {
			return noNSID, err
		}
		if a.kind == netnsaNSID {
			return a.int32()
		}
	}
	return noNSID, fmt.Errorf("%w: a namespace id without NETNSA_NSID", errMalformed)
}

// nsidsRequest asks for the ids of all the namespaces that have one here.
func nsidsRequest(buf []byte) request {
	return newRequest(buf, unix.RTM_GETNSID, unix.NLM_F_DUMP).fixed(make([]byte, sizeofRtGenMsg)...)
}

// nsidRequest asks for the id of the namespace that key (netnsaFD or netnsaPID)
// and value name.
func nsidRequest(buf []byte, key uint16, value int32) request {
	return newRequest(buf, unix.RTM_GETNSID, 0).fixed(make([]byte, sizeofRtGenMsg)...).attrInt32(key, value)
}

// assignRequest asks the kernel to choose an id for the namespace of a file.
func assignRequest(buf []byte, fd int) request {
	return newRequest(buf, unix.RTM_NEWNSID, unix.NLM_F_ACK).fixed(make([]byte, sizeofRtGenMsg)...).
		attrInt32(netnsaFD, int32(fd)).
		attrInt32(netnsaNSID, noNSID)
}
