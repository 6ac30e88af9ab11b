// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// attacher gives pods their network: ours, or the common way.
type attacher struct {
	name   string
	attach func(pod *nettest.Pod, id string)
	detach func(pod *nettest.Pod, id string)
	// settle waits until what detach leaves to the background is done, so that it
	// does not hold up the next turn.
	settle func()
}

func attachers(b *testing.B) []attacher {
	n := newNode(b, "10.88.0.0/16", "fd00:88::/64")
	n.cfg.CoolDown = 0
	n.start()
	cni := newBridgePlugin(b)
	return []attacher{
		{
			"workloadnet",
			func(pod *nettest.Pod, id string) {
				_, err := n.client.Attach(context.Background(), request(pod, id))
				require.NoError(b, err)
			},
			func(_ *nettest.Pod, id string) { n.detach(id) },
			n.waitReaped,
		},
		{
			"cni-bridge-plugin",
			func(pod *nettest.Pod, id string) { cni.run("ADD", pod, id) },
			func(pod *nettest.Pod, id string) { cni.run("DEL", pod, id) },
			func() {},
		},
	}
}

// bridgePlugin is the CNI bridge plugin with host-local addresses of both
// families, called as libcni calls it.
type bridgePlugin struct {
	b    *testing.B
	conf string
}

const cniBin = "/usr/lib/cni"

func newBridgePlugin(b *testing.B) *bridgePlugin {
	if _, err := os.Stat(filepath.Join(cniBin, "bridge")); err != nil {
		b.Skipf("needs the CNI plugins (Debian: containernetworking-plugins): %v", err)
	}
	b.Cleanup(func() {
		if link, err := netlink.LinkByName("cnibench"); err == nil {
			require.NoError(b, netlink.LinkDel(link))
		}
	})
	return &bridgePlugin{b, fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "bench", "type": "bridge", "bridge": "cnibench",
		"isGateway": true, "ipMasq": false, "ipam": {"type": "host-local", "dataDir": %q,
		"ranges": [[{"subnet": "10.244.0.0/16"}], [{"subnet": "fd00:10:244::/64"}]],
		"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}`, b.TempDir())}
}

func (p *bridgePlugin) run(command string, pod *nettest.Pod, id string) {
	cmd := exec.Command(filepath.Join(cniBin, "bridge"))
	cmd.Env = []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + id, "CNI_NETNS=" + pod.Path(), "CNI_IFNAME=eth0", "CNI_PATH=" + cniBin}
	cmd.Stdin = strings.NewReader(p.conf)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		p.b.Fatalf("bridge %s: %v: %s", command, err, out.Bytes())
	}
}

// laps measures one part of each turn.
type laps []time.Duration

func (l *laps) measure(f func()) {
	begin := time.Now()
	f()
	*l = append(*l, time.Since(begin))
}

// median is in milliseconds.
func (l laps) median() float64 {
	slices.Sort(l)
	return float64(l[len(l)/2].Microseconds()) / 1000
}

func (l laps) report(b *testing.B) {
	b.ReportMetric(l.median(), "median-ms")
	b.ReportMetric(float64(l[len(l)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op") // it has the rest of the turn in it
}

// What a pod waits for its network: over the socket, kept in file_storage and
// published, beside the CNI bridge plugin.
func BenchmarkAttach(b *testing.B) {
	nettest.NeedNode(b)
	for _, a := range attachers(b) {
		b.Run(a.name, func(b *testing.B) {
			var l laps
			for i := range b.N {
				pod, id := nettest.NewPod(b), fmt.Sprint("sandbox-", i)
				l.measure(func() { a.attach(pod, id) })
				a.detach(pod, id)
				a.settle()
				pod.Close()
			}
			l.report(b)
		})
	}
}

// Until Detach answers: the pod is off the network. gone-ms is the median until
// the link is deleted as well, which workloadnet does in the background.
func BenchmarkDetach(b *testing.B) {
	nettest.NeedNode(b)
	for _, a := range attachers(b) {
		b.Run(a.name, func(b *testing.B) {
			var l, gone laps
			for i := range b.N {
				pod, id := nettest.NewPod(b), fmt.Sprint("sandbox-", i)
				a.attach(pod, id)
				gone.measure(func() {
					l.measure(func() { a.detach(pod, id) })
					a.settle()
				})
				pod.Close()
			}
			l.report(b)
			b.ReportMetric(gone.median(), "gone-ms")
		})
	}
}

// From the request to the moment that podidentity resolves the address.
func BenchmarkAttachToResolvable(b *testing.B) {
	n := newNode(b, "10.88.0.0/16", "fd00:88::/64")
	n.cfg.CoolDown = 0
	n.start()
	var l laps
	for i := range b.N {
		pod, id := nettest.NewPod(b), fmt.Sprint("sandbox-", i)
		l.measure(func() {
			answer, err := n.client.Attach(context.Background(), request(pod, id))
			require.NoError(b, err)
			addr := netip.MustParseAddr(answer.Attachment.Addresses[1].Ip)
			if _, outcome := n.identity.Resolve(podidentity.Query{Address: addr}); outcome != podidentity.Found {
				b.Fatalf("%s: %s", addr, outcome)
			}
		})
		n.detach(id)
		n.waitReaped()
		pod.Close()
	}
	l.report(b)
}

// What the service keeps in memory for a workload with a Kubernetes pod's usual
// labels and annotations: in the table, by its id and its link, in the journal,
// and its bit among the addresses.
func BenchmarkMemoryPerWorkload(b *testing.B) {
	const workloads = 2000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var per float64
	for range b.N {
		s := &service{table: newTable()}
		j, _, err := journal.Open(context.Background(), storage.NewNopClient(), 0)
		require.NoError(b, err)
		before := heap()
		for i := range workloads {
			a, err := parseAttach(podRequest(i))
			require.NoError(b, err)
			a.NetNS, a.MAC, a.HostInterface, a.HostIndex, a.At = 4026532000, fmt.Sprintf("0a:58:0a:58:%02x:%02x", i>>8, i&0xff), fmt.Sprintf("wn%012x", i), i, time.Now()
			a.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 88, byte(i >> 8), byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd00:88::%x", i))}
			s.table.put(a)
			require.NoError(b, j.Put(a))
		}
		per = float64(heap()-before) / workloads
		runtime.KeepAlive(s)
		require.NoError(b, j.Close(context.Background()))
	}
	b.ReportMetric(per, "B/workload")
	b.ReportMetric(0, "ns/op")
}

func podRequest(i int) *pb.AttachRequest {
	return &pb.AttachRequest{
		WorkloadId: fmt.Sprintf("%064x", i),
		Netns:      &pb.NetNS{NetnsPath: fmt.Sprintf("/var/run/netns/cni-7c0f2a4e-1d3b-4f6a-9c8e-%012x", i)},
		Workload: &pb.Workload{
			Name: fmt.Sprintf("checkout-7d9c6b5f4-%05x", i), Namespace: fmt.Sprint("shop-", i), Uid: fmt.Sprintf("7c0f2a4e-1d3b-4f6a-9c8e-%012x", i),
			Annotations: map[string]string{
				fmt.Sprint("kubernetes.io/config.source.", i): fmt.Sprint("api-", i), fmt.Sprint("kubernetes.io/config.seen.", i): fmt.Sprint("2026-01-02T03:04:05Z", i),
				fmt.Sprint("prometheus.io/scrape.", i): fmt.Sprint("true", i),
			},
		},
		Dns: &pb.DNS{Servers: []string{"10.96.0.10"}, Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}, Options: []string{"ndots:5"}},
	}
}
