// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestPods is the main job: 20 pods on a bridge and on routed links, dual stack,
// one of them in the node's network; traffic of known size; and what Prometheus
// then says of each.
func TestPods(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		// Half of the pods before the collector, half after: its first listing
		// and what it is told later must agree. Two pods share a name.
		pods := b.runAll(t, append(specs(5, "web", "shop", ""), specs(5, "db", "shop", "ptp")...)...)
		_, truth := b.startRetina(t, time.Second)
		prometheus := b.startPrometheus(t)
		pods = append(pods, b.runAll(t, append(specs(4, "web", "test", ""), specs(5, "db", "test", "ptp")...)...)...)
		host, err := b.run(t.Context(), cri.PodSpec{Name: "agent", Namespace: "test", HostNetwork: true})
		require.NoError(t, err)
		require.Empty(t, host.Addresses)
		require.Len(t, pods, 19)
		for _, p := range pods {
			require.Len(t, p.Addresses, 2, "dual stack")
		}
		b.awaitNames(t, truth, pods)

		server, client := pods[0], pods[18] // bridge, ptp
		before := b.kernelCounters(t, pods)
		const perFamily = 5 << 20
		b.transfer(t, server, client, perFamily)
		scrape := b.requireKernelExact(t, prometheus, truth, pods)
		t.Run("traffic is counted in the pod's direction", func(t *testing.T) {
			for _, flow := range []struct {
				pod       *cri.Pod
				direction string
				least     int64
				most      int64
			}{
				{client, "receive", 2 * perFamily, 2 * perFamily * 11 / 10},
				{server, "transmit", 2 * perFamily, 2 * perFamily * 11 / 10},
				{client, "transmit", 1, perFamily / 10},
				{server, "receive", 1, perFamily / 10},
			} {
				key := seriesKey{"k8s.pod.network.io", flow.pod.Namespace, flow.pod.Name, "eth0", flow.direction}
				bytes := scrape[key] - before[key]
				assert.GreaterOrEqual(t, bytes, flow.least, "%v", key)
				assert.LessOrEqual(t, bytes, flow.most, "%v", key)
			}
		})
		t.Run("every series is a pod's, once, by its name", func(t *testing.T) { requireOneSeriesEach(t, prometheus, pods) })
		t.Run("no point carried a wrong name", func(t *testing.T) {
			require.NoError(t, b.truth.checkAll(truth.points(t)))
		})
		t.Run("no scrape has a series twice", func(t *testing.T) {
			for _, points := range truth.scrapes(t) {
				seen := map[string]bool{}
				for _, p := range points {
					require.False(t, seen[p.series()], "%v", p)
					seen[p.series()] = true
				}
			}
		})
		t.Run("no series ever lacked a name", func(t *testing.T) {
			for _, label := range []string{"k8s_pod_name", "k8s_namespace_name", "k8s_pod_uid"} {
				assert.Empty(t, prometheus.Query(t, fmt.Sprintf(`last_over_time({__name__=~"k8s_pod_network_.*",%s=""}[1h])`, label)))
			}
		})
		t.Run("the host-network pod owns nothing", func(t *testing.T) {
			assert.Empty(t, prometheus.Query(t, `last_over_time({k8s_pod_name="agent"}[1h])`))
			for _, p := range truth.points(t) {
				require.NotEqual(t, host.NetNS, p.netns, "%v", p)
			}
		})
	})
}

// awaitNames waits until a scrape has every one of the pods by its UID.
func (b *bed) awaitNames(t *testing.T, truth *sink, pods []*cri.Pod) {
	t.Helper()
	testkit.Eventually(t, patience, "all pods have their names", func() error {
		scrapes := truth.scrapes(t)
		if len(scrapes) == 0 {
			return fmt.Errorf("no scrape yet")
		}
		named := map[string]bool{}
		for _, p := range scrapes[len(scrapes)-1] {
			named[p.uid] = true
		}
		for _, p := range pods {
			if !named[p.UID] {
				return fmt.Errorf("not %s/%s (netns %d)", p.Namespace, p.Name, p.NetNS)
			}
		}
		return nil
	})
}

// transfer has client fetch perFamily bytes from server over IPv4, and again over
// IPv6, by HTTP between two containers.
func (b *bed) transfer(t *testing.T, server, client *cri.Pod, perFamily int) {
	t.Helper()
	ctx := t.Context()
	// busybox's httpd binds :: and takes both families.
	httpd, err := b.runtime.StartContainer(ctx, server, "httpd", "/bin/httpd", "-f", "-p", "80", "-h", "/")
	require.NoError(t, err)
	_, err = b.runtime.Exec(ctx, httpd, "/bin/dd", "if=/dev/zero", "of=/blob", "bs=65536", fmt.Sprintf("count=%d", perFamily/65536))
	require.NoError(t, err)
	wget, err := b.runtime.StartContainer(ctx, client, "wget", "/bin/sleep", "3600")
	require.NoError(t, err)
	for _, address := range server.Addresses {
		_, err = b.runtime.Exec(ctx, wget, "/bin/wget", "-q", "-O", "/dev/null", "http://"+net.JoinHostPort(address.String(), "80")+"/blob")
		require.NoError(t, err)
	}
}

// requireKernelExact waits for a time in which no pod's counter moves and then
// demands that what the collector wrote and Prometheus scraped in it is exactly
// what the kernel says. It returns those counters.
func (b *bed) requireKernelExact(t *testing.T, prometheus *prometheus, truth *sink, pods []*cri.Pod) map[seriesKey]int64 {
	t.Helper()
	// A quiet window may have to be waited for: neighbour discovery goes on for
	// some seconds after a pod's start and after its traffic.
	deadline := time.Now().Add(2 * patience)
	for {
		kernel := b.kernelCounters(t, pods)
		began := time.Now()
		// A point is stamped after its counter was read: only from the second
		// scrape on have all been read since. The third one is written when the
		// second has gone through every exporter, so that what Prometheus gets
		// after it is not older.
		written := counters(truth.awaitScrapes(t, began, 3)[1])
		prometheus.awaitScrape(t, time.Now())
		scraped := prometheusCounters(t, prometheus)
		if again := b.kernelCounters(t, pods); maps.Equal(kernel, again) {
			requireSameCounters(t, kernel, written, "the collector's points")
			requireSameCounters(t, kernel, scraped, "Prometheus's samples")
			return kernel
		}
		require.True(t, time.Now().Before(deadline), "the pods' counters never stood still")
	}
}

func requireSameCounters(t *testing.T, kernel, ours map[seriesKey]int64, whose string) {
	t.Helper()
	for key, value := range kernel {
		got, ok := ours[key]
		require.True(t, ok, "%s lack %v", whose, key)
		require.Equal(t, value, got, "%s, %v", whose, key)
	}
	require.Len(t, ours, len(kernel), "%s are more than the kernel's", whose)
}

func counters(points []point) map[seriesKey]int64 {
	m := map[seriesKey]int64{}
	for _, p := range points {
		m[seriesKey{p.metric, p.namespace, p.pod, p.iface, p.direction}] = p.value
	}
	return m
}

// prometheusNames are our metrics as the Prometheus exporter writes them.
var prometheusNames = map[string]string{
	"k8s_pod_network_io_bytes_total":       "k8s.pod.network.io",
	"k8s_pod_network_packet_count_total":   "k8s.pod.network.packet.count",
	"k8s_pod_network_packet_dropped_total": "k8s.pod.network.packet.dropped",
	"k8s_pod_network_errors_total":         "k8s.pod.network.errors",
}

func prometheusCounters(t *testing.T, prometheus *prometheus) map[seriesKey]int64 {
	t.Helper()
	m := map[seriesKey]int64{}
	for _, s := range prometheus.Query(t, `{__name__=~"k8s_pod_network_.*"}`) {
		l := s.Labels
		metric, known := prometheusNames[l["__name__"]]
		require.True(t, known, "a metric that the test does not know: %v", l)
		key := seriesKey{metric, l["k8s_namespace_name"], l["k8s_pod_name"], l["network_interface_name"], l["network_io_direction"]}
		_, twice := m[key]
		require.False(t, twice, "%v is there twice, now with %v", key, l)
		m[key] = int64(s.Values[0].Value)
	}
	return m
}

// requireOneSeriesEach demands exactly one series for each pod, metric and
// direction in Prometheus, and none besides.
func requireOneSeriesEach(t *testing.T, prometheus *prometheus, pods []*cri.Pod) {
	t.Helper()
	want := map[seriesKey]int{}
	for _, p := range pods {
		for _, metric := range slices.Collect(maps.Values(prometheusNames)) {
			for _, direction := range []string{"receive", "transmit"} {
				want[seriesKey{metric, p.Namespace, p.Name, "eth0", direction}] = 1
			}
		}
	}
	got := map[seriesKey]int{}
	uids := map[string]string{}
	for _, s := range prometheus.Query(t, `{__name__=~"k8s_pod_network_.*"}`) {
		l := s.Labels
		got[seriesKey{prometheusNames[l["__name__"]], l["k8s_namespace_name"], l["k8s_pod_name"], l["network_interface_name"], l["network_io_direction"]}]++
		uids[l["k8s_namespace_name"]+"/"+l["k8s_pod_name"]] = l["k8s_pod_uid"]
	}
	require.Equal(t, want, got)
	for _, p := range pods {
		require.Equal(t, p.UID, uids[p.Namespace+"/"+p.Name])
	}
}
