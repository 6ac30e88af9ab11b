// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"golang.org/x/sys/unix"
)

// flap gives the calling thread's namespace an address, or takes it away: the
// quickest change that the kernel announces.
func flap(i int) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	kind, flags := uint16(unix.RTM_NEWADDR), uint16(unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	if i%2 == 1 {
		kind, flags = unix.RTM_DELADDR, unix.NLM_F_ACK
	}
	// struct ifaddrmsg: 10.3.0.1/32 on link 2, which is the first of a new namespace.
	r := newRequest(c.req, kind, flags).fixed(unix.AF_INET, 32, 0, 0).uint32(2)
	for _, attr := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		r = r.fixed(8, 0, byte(attr), 0, 10, 3, 0, 1)
	}
	return c.do(r, func(message) error { return nil })
}
