// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestPods: what a pod of this containerd has, and that nothing is left of it.
func TestPods(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		b.startCollector(t)
		b.ready(t)
		before := b.network(t)
		pods := make([]*cri.Pod, 3)
		for i := range pods {
			var err error
			pods[i], err = b.runtime.RunPod(t.Context(), cri.PodSpec{
				Name: fmt.Sprint("web-", i), Namespace: "shop", HostNetwork: i == 2,
				Config: func(c *runtimeapi.PodSandboxConfig) {
					c.Annotations = map[string]string{"example.com/index": fmt.Sprint(i)}
					c.DnsConfig = &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"shop.local"}, Options: []string{"ndots:5"}}
				},
			})
			require.NoError(t, err)
		}
		hostNetwork := pods[2]
		pods = pods[:2]
		list := b.list(t)
		assert.Len(t, list, 2, "a host-network pod is not attached")
		assert.Empty(t, hostNetwork.Addresses)

		for i, p := range pods {
			// What the CRI status shows is what the service gave.
			a := list[p.ID]
			require.NotNil(t, a)
			require.Len(t, p.Addresses, 2)
			assert.Equal(t, addresses(t, a), p.Addresses)
			for family, addr := range p.Addresses {
				assert.True(t, prefixes[family].Contains(addr), "%s is in %s", addr, prefixes[family])
			}
			assert.Equal(t, p.NetNS, a.NetnsInode)
			assert.Equal(t, p.Name, a.Workload.Name)
			assert.Equal(t, "shop", a.Workload.Namespace)
			assert.Equal(t, p.UID, a.Workload.Uid)
			assert.Equal(t, map[string]string{"example.com/index": fmt.Sprint(i)}, a.Workload.Annotations)
			assert.Equal(t, []string{"192.0.2.53"}, a.Dns.Servers)
			assert.Equal(t, []string{"shop.local"}, a.Dns.Searches)
			assert.Equal(t, []string{"ndots:5"}, a.Dns.Options)
		}
		t.Run("traffic", func(t *testing.T) { testTraffic(t, b, pods) })
		t.Run("containers", func(t *testing.T) { testContainers(t, b, pods) })

		b.remove(t, append(pods, hostNetwork))
		assert.Empty(t, b.list(t))
		testkit.Eventually(t, patience, "the links are gone", func() error {
			if left := b.links(t); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
		assert.Equal(t, before, b.network(t), "nothing is left on the node")
	})
}

// testTraffic: the first packet of every direction gets there.
func testTraffic(t *testing.T, b *bed, pods []*cri.Pod) {
	for family := range 2 {
		nodeAddr := []netip.Addr{nodeV4, nodeV6}[family]
		for _, tt := range []struct {
			name     string
			from, to func(func() error) error
			addr     netip.Addr
			source   netip.Addr
		}{
			{"pod to pod", in(pods[0]), in(pods[1]), pods[1].Addresses[family], pods[0].Addresses[family]},
			{"pod to node", in(pods[0]), b.inNode, nodeAddr, pods[0].Addresses[family]},
			{"node to pod", b.inNode, in(pods[1]), pods[1].Addresses[family], nodeAddr},
		} {
			t.Run(fmt.Sprintf("%s, IPv%d", tt.name, 4+2*family), func(t *testing.T) {
				client, server, err := dial(tt.from, tt.to, tt.addr)
				require.NoError(t, err)
				defer client.Close()
				_, err = io.WriteString(server, "hello")
				require.NoError(t, err)
				assert.Equal(t, tt.source, netip.MustParseAddrPort(server.RemoteAddr().String()).Addr())
				require.NoError(t, server.Close())
				said, err := io.ReadAll(client)
				require.NoError(t, err)
				assert.Equal(t, "hello", string(said))
			})
		}
	}
}

// testContainers: the same from inside the pods' containers.
func testContainers(t *testing.T, b *bed, pods []*cri.Pod) {
	_, err := b.runtime.StartContainer(t.Context(), pods[1], "server", "sh", "-c", "mkdir /www; echo served >/www/page; httpd -f -h /www")
	require.NoError(t, err)
	client, err := b.runtime.StartContainer(t.Context(), pods[0], "client")
	require.NoError(t, err)
	for _, host := range []string{pods[1].Addresses[0].String(), "[" + pods[1].Addresses[1].String() + "]"} {
		testkit.Eventually(t, patience, "the server answers", func() error {
			page, err := b.runtime.Exec(t.Context(), client, "wget", "-q", "-O-", "http://"+host+"/page")
			if err == nil && page != "served\n" {
				err = fmt.Errorf("%q", page)
			}
			return err
		})
	}
	resolv, err := b.runtime.Exec(t.Context(), client, "busybox", "cat", "/etc/resolv.conf")
	require.NoError(t, err)
	for _, line := range []string{"nameserver 192.0.2.53", "search shop.local", "options ndots:5"} {
		assert.Contains(t, resolv, line)
	}
}

// TestMany: 250 pods, the first 50 all at once.
func TestMany(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		b.startCollector(t)
		b.ready(t)
		before := b.network(t)
		pods := append(b.run(t, 50, 50, "burst"), b.run(t, 200, 8, "many")...)
		seen := map[netip.Addr]bool{}
		list := b.list(t)
		assert.Len(t, list, len(pods))
		for _, p := range pods {
			require.Len(t, p.Addresses, 2)
			for _, addr := range p.Addresses {
				require.False(t, seen[addr], "%s was given twice", addr)
				seen[addr] = true
			}
			assert.Equal(t, addresses(t, list[p.ID]), p.Addresses)
		}
		assert.Len(t, b.links(t), len(pods))
		client, server, err := dial(in(pods[0]), in(pods[249]), pods[249].Addresses[1])
		require.NoError(t, err)
		_, _ = client.Close(), server.Close()

		b.remove(t, pods)
		assert.Empty(t, b.list(t))
		testkit.Eventually(t, patience, "the links are gone", func() error {
			if left := b.links(t); len(left) > 0 {
				return fmt.Errorf("%d links", len(left))
			}
			return nil
		})
		assert.Equal(t, before, b.network(t))
	})
}

// TestNamed: with no source of identities but workloadnet, no data point is without
// its pod's name, from a pod's first one on.
func TestNamed(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		b.interval = 50 * time.Millisecond
		b.startCollector(t)
		b.ready(t)
		pods := b.run(t, 20, 4, "named")
		byNetNS := map[uint64]*cri.Pod{}
		for _, p := range pods {
			byNetNS[p.NetNS] = p
		}
		points := b.points()
		testkit.Eventually(t, patience, "every pod has data points", func() error {
			points.read(t)
			seen := map[uint64]int{}
			for _, p := range points.all {
				seen[p.netns]++
			}
			for _, p := range pods {
				if seen[p.NetNS] < 50 {
					return fmt.Errorf("%s has %d", p.Name, seen[p.NetNS])
				}
			}
			return nil
		})
		for _, p := range points.all {
			require.NotEmpty(t, p.name, "a data point of namespace %d, stamped %s", p.netns, p.at)
			pod := byNetNS[p.netns]
			require.NotNil(t, pod, "a data point of namespace %d says that it is of %s", p.netns, p.name)
			require.Equal(t, pod.Name, p.name, "a data point stamped %s, %s after the pod was asked for", p.at, p.at.Sub(pod.Asked))
			require.Equal(t, "attach", p.namespace)
			require.Equal(t, pod.UID, p.uid)
			if p.ip != "" { // a point of the moment before the interface had its address
				require.Equal(t, pod.Addresses[0].String(), p.ip)
			}
		}
		t.Logf("%d data points, all with their pod's name", len(points.all))
		b.remove(t, pods)
	})
}

// TestServiceDown: containerd says so, fails at once, and recovers by itself.
func TestServiceDown(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		down := func(why string) {
			t.Helper()
			conditions, err := b.runtime.Conditions(t.Context())
			require.NoError(t, err)
			network := conditions[runtimeapi.NetworkReady]
			assert.False(t, network.Status, why)
			assert.Contains(t, network.Message, b.socket())
			begin := time.Now()
			_, err = b.runtime.RunPod(t.Context(), cri.PodSpec{Name: "none", Namespace: "attach"})
			assert.ErrorContains(t, err, "workloadnet service at "+b.socket())
			assert.Less(t, time.Since(begin), patience/2, "it waited for something")
		}
		down("the collector was never there")
		// 1.7 keeps a sandbox whose network it could not tear down, as NOTREADY, for
		// the kubelet to remove.
		sandboxes, err := b.runtime.Sandboxes(t.Context())
		require.NoError(t, err)
		for _, s := range sandboxes {
			assert.Equal(t, runtimeapi.PodSandboxState_SANDBOX_NOTREADY, s.State)
		}

		c := b.startCollector(t)
		b.ready(t)
		b.removeAllBut(t)
		pods := b.run(t, 2, 2, "some")

		c.end(t, syscall.SIGTERM)
		down("the collector has ended")
		err = b.runtime.RemovePod(t.Context(), pods[0].ID)
		assert.ErrorContains(t, err, "workloadnet service at "+b.socket(), "the kubelet will try again")
		client, server, err := dial(in(pods[1]), b.inNode, nodeV6)
		require.NoError(t, err, "the pods' network is still there")
		_, _ = client.Close(), server.Close()

		b.startCollector(t)
		b.ready(t)
		b.removeAllBut(t)
		assert.Empty(t, b.list(t))
		b.remove(t, b.run(t, 1, 1, "again"))
		sandboxes, err = b.runtime.Sandboxes(t.Context())
		require.NoError(t, err)
		assert.Empty(t, sandboxes)
	})
}

// TestRefused: what workloadnet does not do fails, and says what it is.
func TestRefused(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		b.startCollector(t)
		b.ready(t)
		before := b.network(t)
		for name, change := range map[string]func(*runtimeapi.PodSandboxConfig){
			"port_mappings: ": func(c *runtimeapi.PodSandboxConfig) {
				c.PortMappings = []*runtimeapi.PortMapping{{HostPort: 8080, ContainerPort: 80}}
			},
			"bandwidth: ": func(c *runtimeapi.PodSandboxConfig) {
				c.Annotations = map[string]string{"kubernetes.io/ingress-bandwidth": "10M"}
			},
		} {
			_, err := b.runtime.RunPod(t.Context(), cri.PodSpec{Name: "refused", Namespace: "attach", Config: change})
			assert.ErrorContains(t, err, strings.TrimSpace(name))
		}
		assert.Empty(t, b.list(t))
		assert.Equal(t, before, b.network(t))
	})
}
