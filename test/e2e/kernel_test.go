// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
)

// link is what the kernel says of an interface: iproute2's JSON.
type link struct {
	Index     int    `json:"ifindex"`
	Name      string `json:"ifname"`
	PeerIndex int    `json:"link_index"`
	Stats     struct {
		RX, TX stats
	} `json:"stats64"`
}

type stats struct {
	Bytes, Packets, Dropped, Errors int64
}

// links reads the interfaces of a network namespace with iproute2: not with the
// product's code, and entering the namespace as the product does not.
func links(t *testing.T, netns string) []link {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nsenter", "--net="+netns, "ip", "-s", "-j", "link").Output()
	if err != nil {
		t.Fatalf("ip link in %s: %v", netns, err)
	}
	var l []link
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatalf("ip link in %s: %v", netns, err)
	}
	return l
}

// ip runs iproute2 in a network namespace.
func ip(t *testing.T, netns string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "nsenter", append([]string{"--net=" + netns, "ip"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// seriesKey names one counter of a pod, in the pod's direction.
type seriesKey struct {
	metric, namespace, pod, iface, direction string
}

// kernelCounters reads every counter of the pods from the kernel. Bytes and
// packets are those of the pod's own interface; drops and errors are those that
// the host's end counts, mirrored, as the receiver documents.
func (b *bed) kernelCounters(t *testing.T, pods []*cri.Pod) map[seriesKey]int64 {
	t.Helper()
	host := map[int]link{}
	for _, l := range links(t, fmt.Sprintf("/proc/%d/ns/net", b.containerdPID(t))) {
		host[l.Index] = l
	}
	counters := map[seriesKey]int64{}
	for _, p := range pods {
		for _, l := range links(t, p.NetNSPath()) {
			if l.Name == "lo" {
				continue
			}
			peer, ok := host[l.PeerIndex]
			if !ok {
				t.Fatalf("pod %s: no host end %d of %s", p.Name, l.PeerIndex, l.Name)
			}
			for direction, of := range map[string]struct{ own, host stats }{
				"receive":  {l.Stats.RX, peer.Stats.TX},
				"transmit": {l.Stats.TX, peer.Stats.RX},
			} {
				key := seriesKey{"", p.Namespace, p.Name, l.Name, direction}
				for metric, value := range map[string]int64{
					"k8s.pod.network.io":             of.own.Bytes,
					"k8s.pod.network.packet.count":   of.own.Packets,
					"k8s.pod.network.packet.dropped": of.host.Dropped,
					"k8s.pod.network.errors":         of.host.Errors,
				} {
					key.metric = metric
					counters[key] = value
				}
			}
		}
	}
	return counters
}

func (b *bed) containerdPID(t *testing.T) int {
	t.Helper()
	pid, err := b.ContainerdPID()
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
