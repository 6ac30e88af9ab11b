// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

const (
	// bulk is what every second generation receives: no other one comes near, so
	// that a counter's size tells whose it is.
	bulk     = 1000 * datagram
	datagram = 1000
)

// TestAddressReuse stops a pod and gives its addresses (and, as the kernel
// likes it, its namespace's inode number) to a new one within a second, again
// and again, on a network that has one address of each family. It goes on until
// enough of them came within a second, however seldom a busy machine does that.
func TestAddressReuse(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		const (
			interval = 100 * time.Millisecond
			fewest   = 12 // generations
			most     = 60
			enough   = 6 // of them within a second of the last
		)
		_, truth := b.startRetina(t, interval)
		prometheus := b.startPrometheus(t)
		var pods []*cri.Pod
		var stopped time.Time
		withinASecond := 0
		for generation := 0; ; generation++ {
			p, err := b.run(t.Context(), cri.PodSpec{Name: fmt.Sprintf("gen-%d", generation), Namespace: "reuse", Handler: "reuse"})
			require.NoError(t, err)
			if generation > 0 {
				require.Equal(t, pods[0].Addresses, p.Addresses)
				if p.Running.Sub(stopped) < time.Second {
					withinASecond++
				}
			}
			pods = append(pods, p)
			if generation%2 == 0 {
				b.sendDatagrams(t, p, bulk/datagram)
			}
			switch {
			case generation%3 == 2: // gone before its name is known
			case generation == 0: // known to Prometheus too, to see its series end
				b.awaitNames(t, truth, pods[:1])
				testkit.Eventually(t, patience, "Prometheus has gen-0", func() error {
					if len(prometheus.Query(t, `k8s_pod_network_io_bytes_total{k8s_pod_name="gen-0"}`)) == 0 {
						return fmt.Errorf("not yet")
					}
					return nil
				})
			default:
				b.awaitNames(t, truth, pods[generation:])
			}
			if len(pods) >= fewest && withinASecond >= enough {
				break
			}
			require.Less(t, len(pods), most, "the machine gave the address away within a second only %d times", withinASecond)
			require.NoError(t, b.stop(t.Context(), p))
			stopped = time.Now()
		}
		last := pods[len(pods)-1]
		b.awaitNames(t, truth, []*cri.Pod{last})
		truth.awaitScrapes(t, time.Now(), 10)

		points := truth.points(t)
		require.NoError(t, b.truth.checkAll(points))
		inodes := map[uint64]bool{}
		for _, p := range pods {
			inodes[p.NetNS] = true
		}
		t.Logf("%d points; %d of %d pods had the address within a second of the last one; they shared %d inode numbers",
			len(points), withinASecond, len(pods)-1, len(inodes))
		named := map[string]int{}
		for _, p := range points {
			if p.pod == "" {
				continue
			}
			named[p.pod]++
			var generation int
			_, err := fmt.Sscanf(p.pod, "gen-%d", &generation)
			require.NoError(t, err)
			if generation%2 == 1 && p.metric == "k8s.pod.network.io" {
				require.Less(t, p.value, int64(bulk), "counter of another pod: %v", p)
			}
		}
		for generation, p := range pods {
			if generation%3 != 2 {
				assert.Positive(t, named[p.Name], "%s never had a point", p.Name)
			}
		}
		t.Run("each pod's series begins anew", func(t *testing.T) {
			for _, p := range points {
				if i := indexOf(pods, p.uid); i >= 0 {
					require.False(t, p.start.Before(pods[i].Asked), "start time %v is before the pod's: %v", p.start, p)
				}
			}
		})
		t.Run("the old pods' series end in Prometheus", func(t *testing.T) {
			requireSeriesEnd(t, b, prometheus, last, expiration(interval))
		})
	})
}

// requireSeriesEnd demands that Prometheus has samples of each pod only while it
// lived, and as long after it as the page shows a series without new points.
func requireSeriesEnd(t *testing.T, b *bed, prometheus *prometheus, last *cri.Pod, expiration time.Duration) {
	t.Helper()
	testkit.Eventually(t, patience, "only the last pod has series", func() error {
		for _, s := range prometheus.Query(t, `k8s_pod_network_io_bytes_total`) {
			if s.Labels["k8s_pod_uid"] != last.UID {
				return fmt.Errorf("%v", s.Labels)
			}
		}
		return nil
	})
	samples := 0
	for _, s := range prometheus.Query(t, `k8s_pod_network_io_bytes_total{k8s_pod_name!=""}[1h]`) {
		for _, l := range b.truth.lives {
			if l.pod.UID != s.Labels["k8s_pod_uid"] {
				continue
			}
			samples += len(s.Values)
			first, final := s.Values[0].At, s.Values[len(s.Values)-1].At
			assert.False(t, first.Before(l.pod.Asked), "%v begins before its pod", s.Labels)
			if !l.end.IsZero() {
				assert.LessOrEqual(t, final.Sub(l.end), expiration, "%v goes on after its pod", s.Labels)
			}
		}
	}
	require.Positive(t, samples)
}

func indexOf(pods []*cri.Pod, uid string) int {
	for i, p := range pods {
		if p.UID == uid {
			return i
		}
	}
	return -1
}

// sendDatagrams sends n datagrams from the node to a pod. Nobody listens there;
// the link counts them all the same.
func (b *bed) sendDatagrams(t *testing.T, p *cri.Pod, n int) {
	t.Helper()
	before := receivedPackets(t, p)
	conn, err := b.DialContext(t.Context(), "udp", net.JoinHostPort(p.Addresses[0].String(), "9"))
	require.NoError(t, err)
	defer conn.Close()
	payload := make([]byte, datagram)
	for range n {
		// A refusal (ICMP) for an earlier datagram is reported on the next one,
		// which is then not sent: send it again.
		if _, err := conn.Write(payload); err != nil {
			_, err = conn.Write(payload)
			require.NoError(t, err)
		}
	}
	testkit.Eventually(t, patience, "the datagrams arrived", func() error {
		if got := receivedPackets(t, p) - before; got < int64(n) {
			return fmt.Errorf("%d of %d", got, n)
		}
		return nil
	})
}

func receivedPackets(t *testing.T, p *cri.Pod) int64 {
	t.Helper()
	for _, l := range links(t, p.NetNSPath()) {
		if l.Name == "eth0" {
			return l.Stats.RX.Packets
		}
	}
	t.Fatalf("pod %s has no eth0", p.Name)
	return 0
}
