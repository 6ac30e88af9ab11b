// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"fmt"
	"testing"

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

// manyPods makes pods that are connected to a bridge, with addresses from
// 10.2.0.1 on. The bridge is 10.1.0.1.
func manyPods(n *testNode, count int) []*testPod {
	n.ip("link add br0 type bridge\naddr add 10.1.0.1/8 dev br0\nlink set br0 up")
	pods := make([]*testPod, count)
	lines := ""
	for i := range pods {
		pods[i] = n.pod()
		lines += fmt.Sprintf("link add v%d type veth peer name eth0 netns %s\nlink set v%d up master br0\n", i, pods[i].name, i)
	}
	n.ip(lines)
	for i, p := range pods {
		p.inside(fmt.Sprintf("addr add 10.2.%d.%d/8 dev eth0\nlink set eth0 up", i/250, i%250+1))
	}
	return pods
}

var _ testing.TB = (*testNode)(nil)
