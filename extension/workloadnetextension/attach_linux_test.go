// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestAttachDetach(t *testing.T) {
	n := newNode(t).start()
	before := nettest.NodeState(t)
	pod := nettest.NewPod(t)
	begin := time.Now()
	answer, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
	require.NoError(t, err)
	a := answer.Attachment

	assert.Equal(t, "sandbox-1", a.WorkloadId)
	assert.Equal(t, pod.Path(), a.Netns.NetnsPath)
	assert.Equal(t, "eth0", a.Netns.IfName)
	assert.True(t, proto.Equal(request(pod, "sandbox-1").Workload, a.Workload))
	assert.True(t, proto.Equal(goodRequest().Dns, a.Dns), "the DNS configuration comes back")
	assert.WithinRange(t, a.AttachedAt.AsTime(), begin.Add(-time.Millisecond), time.Now())
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(pod.Path(), &stat))
	assert.Equal(t, stat.Ino, a.NetnsInode)
	require.Len(t, a.Addresses, 2)
	assert.Equal(t, []string{"10.88.0.2", "fd00:88::2"}, ips(a))
	assert.Equal(t, "169.254.77.1", a.Addresses[0].Gateway)
	assert.Equal(t, "fe80::1", a.Addresses[1].Gateway)
	pod.Do(func() {
		link, err := netlink.LinkByName("eth0")
		if assert.NoError(t, err) {
			assert.Equal(t, link.Attrs().HardwareAddr.String(), a.Mac)
		}
	})
	assert.Len(t, nettest.Lines(nettest.NodeState(t), "link "+a.HostInterface+" veth"), 1)

	// The identity is there when the answer is, by every key.
	for _, q := range []podidentity.Query{
		{Address: netip.MustParseAddr("10.88.0.2")}, {Address: netip.MustParseAddr("fd00:88::2")},
		{Sandbox: "sandbox-1"}, {NetNS: stat.Ino}, {UID: "uid-sandbox-1"},
	} {
		assert.Equal(t, "shop/pod-sandbox-1", n.ask(q), "%+v", q)
	}
	identity, _ := n.identity.Resolve(podidentity.Query{Sandbox: "sandbox-1"})
	require.NotNil(t, identity)
	assert.Equal(t, map[string]string{"app": "web"}, identity.Labels)
	assert.Equal(t, map[string]string{"a": "b"}, identity.Annotations)

	list := n.list()
	require.Len(t, list, 1)
	assert.True(t, proto.Equal(a, list[0]))

	n.detach("sandbox-1")
	assert.Equal(t, "ended", n.resolve("10.88.0.2"))
	assert.Empty(t, n.list())
	n.detach("sandbox-1") // idempotent
	n.waitReaped()
	assert.Equal(t, before, nettest.NodeState(t))
	assert.Empty(t, nettest.Lines(pod.State(), "eth0"))
}

func TestAttachAgain(t *testing.T) {
	n := newNode(t).start()
	pod := nettest.NewPod(t)
	a := n.attach(pod, "sandbox-1")
	t.Run("the same request gets the same answer", func(t *testing.T) {
		answer, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
		require.NoError(t, err)
		assert.True(t, proto.Equal(a, answer.Attachment))
		assert.Len(t, n.list(), 1)
	})
	t.Run("another request is refused", func(t *testing.T) {
		r := request(pod, "sandbox-1")
		r.Workload.Name = "other"
		_, err := n.client.Attach(context.Background(), r)
		assert.Equal(t, codes.AlreadyExists, status.Code(err))
		assert.ErrorContains(t, err, pod.Path())
	})
	t.Run("the same id for another namespace is refused", func(t *testing.T) {
		_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-1"))
		assert.Equal(t, codes.AlreadyExists, status.Code(err))
	})
	t.Run("the same at once is one attachment", func(t *testing.T) {
		pod := nettest.NewPod(t)
		var wg sync.WaitGroup
		answers := make([]*pb.AttachResponse, 20)
		for i := range answers {
			wg.Go(func() {
				var err error
				answers[i], err = n.client.Attach(context.Background(), request(pod, "sandbox-2"))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		for _, answer := range answers {
			assert.True(t, proto.Equal(answers[0], answer))
		}
		n.detach("sandbox-2")
	})
	t.Run("the same namespace again, right after Detach", func(t *testing.T) {
		pod := nettest.NewPod(t)
		for range 5 {
			_, err := n.client.Attach(context.Background(), request(pod, "sandbox-3"))
			require.NoError(t, err)
			n.detach("sandbox-3")
		}
	})
}

func TestAttachFails(t *testing.T) {
	n := newNode(t, "10.88.0.0/29").start()
	n.cfg.CoolDown = 0
	file := filepath.Join(n.dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, pod *nettest.Pod, r *pb.AttachRequest)
		code    codes.Code
		message string
	}{
		{"no such namespace", func(_ *testing.T, _ *nettest.Pod, r *pb.AttachRequest) { r.Netns.NetnsPath = "/run/netns/none" },
			codes.NotFound, "netns.netns_path: open /run/netns/none: no such file or directory"},
		{"a namespace that has just vanished", func(_ *testing.T, pod *nettest.Pod, _ *pb.AttachRequest) { pod.Close() },
			codes.NotFound, "netns.netns_path: "},
		{"no namespace at all", func(_ *testing.T, _ *nettest.Pod, r *pb.AttachRequest) { r.Netns.NetnsPath = file },
			codes.InvalidArgument, "netns.netns_path: " + file + ": not a network namespace"},
		{"the node's namespace", func(_ *testing.T, _ *nettest.Pod, r *pb.AttachRequest) {
			r.Netns.NetnsPath = "/proc/thread-self/ns/net"
		},
			codes.InvalidArgument, "the node's own network namespace"},
		{"an interface name that is taken", func(t *testing.T, pod *nettest.Pod, _ *pb.AttachRequest) {
			pod.Do(func() { assert.NoError(t, addBridge("eth0")) })
		}, codes.AlreadyExists, "eth0: the interface exists in the namespace"},
		{"a foreign link with our name", func(t *testing.T, _ *nettest.Pod, _ *pb.AttachRequest) {
			require.NoError(t, addBridge(veth.HostName("sandbox-1")))
			t.Cleanup(func() {
				link, err := netlink.LinkByName(veth.HostName("sandbox-1"))
				require.NoError(t, err, "the foreign link is still there")
				require.Equal(t, "bridge", link.Type())
				require.NoError(t, netlink.LinkDel(link))
			})
		}, codes.AlreadyExists, "a link with this name exists that is not of workloadnet"},
		{"a bad field", func(_ *testing.T, _ *nettest.Pod, r *pb.AttachRequest) { r.Workload.Name = "" },
			codes.InvalidArgument, "workload.name: must be set"},
		{"port mappings", func(_ *testing.T, _ *nettest.Pod, r *pb.AttachRequest) {
			r.PortMappings = []*pb.PortMapping{{HostPort: 80}}
		},
			codes.Unimplemented, "port_mappings: "},
		{"bandwidth", func(_ *testing.T, _ *nettest.Pod, r *pb.AttachRequest) { r.Bandwidth = &pb.Bandwidth{IngressRate: 1} },
			codes.Unimplemented, "bandwidth: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := nettest.NewPod(t)
			r := request(pod, "sandbox-1")
			tt.prepare(t, pod, r)
			before := nettest.NodeState(t)
			_, err := n.client.Attach(context.Background(), r)
			assert.Equal(t, tt.code, status.Code(err), "%v", err)
			assert.ErrorContains(t, err, tt.message)
			n.nothingLeft(t, before)
		})
	}
}

// A namespace that is on a network is not taken to another one, and its own goes on.
func TestSecondInterface(t *testing.T) {
	n := newNode(t).start()
	pod := nettest.NewPod(t)
	n.attach(pod, "sandbox-1")
	before, podBefore := nettest.NodeState(t), pod.State()
	r := request(pod, "sandbox-2")
	r.Netns.IfName = "eth1"
	_, err := n.client.Attach(context.Background(), r)
	assert.Equal(t, codes.AlreadyExists, status.Code(err), "%v", err)
	assert.ErrorContains(t, err, "dev eth1: the namespace is on a network already: it has this route")
	assert.Equal(t, before, nettest.NodeState(t))
	assert.Equal(t, podBefore, pod.State())
	assert.Equal(t, "shop/pod-sandbox-1", n.resolve("10.88.0.2"))
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(pod.Path(), &stat))
	assert.Equal(t, "shop/pod-sandbox-1", n.ask(podidentity.Query{NetNS: stat.Ino}))
}

// A pod that another source knows keeps its name when an Attach of its sandbox fails:
// its sandbox is not dead.
func TestAttachFailsForAKnownPod(t *testing.T) {
	n := newNode(t)
	list := filepath.Join(n.dir, "pods.yaml")
	require.NoError(t, os.WriteFile(list, []byte(`pods: [{name: web-0, namespace: shop, addresses: [10.1.2.3], sandbox_id: sandbox-1}]`), 0o600))
	n.identityConfig = map[string]any{"sources": map[string]any{"statefile": map[string]any{"path": list, "format": "list"}}}
	n.start()
	known := func(c assert.TestingT) {
		assert.Equal(c, "shop/web-0", n.resolve("10.1.2.3"))
		assert.Equal(c, "shop/web-0", n.ask(podidentity.Query{Sandbox: "sandbox-1"}))
	}
	eventually(t, func(c *assert.CollectT) { known(c) })

	pod := nettest.NewPod(t)
	n.attach(pod, "sandbox-0")
	r := request(pod, "sandbox-1")
	r.Workload.Name, r.Netns.IfName = "web-0", "net1"
	_, err := n.client.Attach(context.Background(), r)
	require.Equal(t, codes.AlreadyExists, status.Code(err), "%v", err)
	known(t)
}

// A node whose IPv6 is switched off attaches workloads to IPv4 alone, and says what
// is wrong when they are to have both.
func TestNodeWithoutIPv6(t *testing.T) {
	nettest.NeedNode(t)
	t.Cleanup(func() { assert.NoError(t, nettest.AddNodeAddresses()) }) // last: when it is on again
	for _, scope := range []string{"all", "default"} {
		setting := "/proc/sys/net/ipv6/conf/" + scope + "/disable_ipv6"
		require.NoError(t, os.WriteFile(setting, []byte("1"), 0))
		t.Cleanup(func() { assert.NoError(t, os.WriteFile(setting, []byte("0"), 0)) })
	}

	n := newNode(t, "10.88.0.0/29").start()
	assert.Equal(t, []string{"10.88.0.2"}, ips(n.attach(nettest.NewPod(t), "sandbox-4")))
	n.detach("sandbox-4")
	n.stop()

	n = newNode(t).start()
	before := nettest.NodeState(t)
	_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-1"))
	assert.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	assert.ErrorContains(t, err, "IPv6 is switched off (net.ipv6.conf.*.disable_ipv6)")
	assert.Equal(t, before, nettest.NodeState(t))
	assert.Empty(t, n.list())
}

// nothingLeft asserts that a failed Attach of sandbox-1, on a node where nothing
// is attached, has left nothing behind.
func (n *node) nothingLeft(t *testing.T, before []string) {
	t.Helper()
	assert.Equal(t, before, nettest.NodeState(t))
	assert.Empty(t, n.list())
	answer, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, uint32(5), answer.Free, "no address is lost")
	assert.NotContains(t, n.ask(podidentity.Query{Sandbox: "sandbox-1"}), "pod-")
}

func addBridge(name string) error {
	return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}})
}

// failing is a publisher that refuses.
type failing struct{ podidentity.Publisher }

func (failing) Publish(podidentity.Record) error { return errors.New("injected") }

// Whatever fails on the way of an Attach, nothing is left of it, and the next one
// works.
func TestAttachRollsBack(t *testing.T) {
	n := newNode(t, "10.88.0.0/29").start()
	s := n.ext.service
	type fault struct {
		name    string
		inject  func()
		restore func()
		code    codes.Code
	}
	var faults []fault
	for step := veth.StepOpen; step <= veth.StepMark; step++ {
		for _, cause := range []struct {
			err  error
			code codes.Code
		}{{errors.New("injected"), codes.Internal}, {unix.EPERM, codes.PermissionDenied}, {unix.ENOENT, codes.Internal}} {
			faults = append(faults, fault{
				name: fmt.Sprintf("%s: %v", step, cause.err),
				inject: func() {
					s.network.Fault = func(at veth.Step) error {
						if at == step {
							return cause.err
						}
						return nil
					}
				},
				restore: func() { s.network.Fault = nil },
				code:    cause.code,
			})
		}
	}
	publisher, j := s.publisher, s.journal
	faults = append(faults,
		fault{"publish", func() { s.publisher = failing{publisher} }, func() { s.publisher = publisher }, codes.Internal},
		fault{"storage", func() { s.journal = brokenJournal(t) }, func() { s.journal = j }, codes.Unavailable},
	)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			pod := nettest.NewPod(t)
			before, podBefore := nettest.NodeState(t), pod.State()
			f.inject()
			_, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
			f.restore()
			require.Equal(t, f.code, status.Code(err), "%v", err)
			if f.code == codes.PermissionDenied {
				assert.Regexp(t, "the collector needs CAP_(NET|SYS)_ADMIN", err.Error())
			}
			n.nothingLeft(t, before)
			assert.Equal(t, podBefore, pod.State())
		})
	}
	n.attach(nettest.NewPod(t), "sandbox-1")
}

// Somebody deletes the link while it is being made.
func TestLinkVanishes(t *testing.T) {
	n := newNode(t, "10.88.0.0/29").start()
	for step := veth.StepFind; step <= veth.StepMark; step++ {
		t.Run(step.String(), func(t *testing.T) {
			pod := nettest.NewPod(t)
			before, podBefore := nettest.NodeState(t), pod.State()
			n.ext.service.network.Fault = func(at veth.Step) error {
				if at != step {
					return nil
				}
				link, err := netlink.LinkByName(veth.HostName("sandbox-1"))
				if assert.NoError(t, err) {
					err = netlink.LinkDel(link)
				}
				return err
			}
			_, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
			n.ext.service.network.Fault = nil
			assert.Equal(t, codes.Internal, status.Code(err), "%v", err)
			n.nothingLeft(t, before)
			assert.Equal(t, podBefore, pod.State())
		})
	}
}

func TestAttachIsCancelled(t *testing.T) {
	n := newNode(t, "10.88.0.0/29").start()
	for step := veth.StepEnter; step <= veth.StepMark; step++ {
		t.Run(step.String(), func(t *testing.T) {
			before := nettest.NodeState(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			hungUp := make(chan struct{})
			n.ext.service.network.Fault = func(at veth.Step) error {
				if at == step {
					cancel()
					<-hungUp // the service must hear of it before it goes on
				}
				return nil
			}
			defer func() { n.ext.service.network.Fault = nil }()
			// The service's own context of the call, which the network ends.
			release := make(chan struct{})
			go func() {
				defer close(release)
				_, err := n.ext.service.Attach(ctx, request(nettest.NewPod(t), "sandbox-1"))
				assert.Equal(t, codes.Canceled, status.Code(err), "%v", err)
			}()
			<-ctx.Done()
			close(hungUp)
			<-release
			n.nothingLeft(t, before)
		})
	}
}

func TestPrefixFull(t *testing.T) {
	n := newNode(t, "10.88.0.0/29") // five addresses
	n.cfg.CoolDown = 2 * time.Second
	n.start()
	for i := range 5 {
		n.attach(nettest.NewPod(t), fmt.Sprint("sandbox-", i))
	}
	pod := nettest.NewPod(t)
	before := nettest.NodeState(t)
	_, err := n.client.Attach(context.Background(), request(pod, "sandbox-5"))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "no address is free in [10.88.0.0/29]: 5 in use, 0 cooling down")
	assert.Equal(t, before, nettest.NodeState(t))

	n.detach("sandbox-3")
	_, err = n.client.Attach(context.Background(), request(pod, "sandbox-5"))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "4 in use, 1 cooling down")
	var a *pb.Attachment
	eventually(t, func(c *assert.CollectT) {
		answer, err := n.client.Attach(context.Background(), request(pod, "sandbox-5"))
		if assert.NoError(c, err) {
			a = answer.Attachment
		}
	})
	assert.Equal(t, []string{"10.88.0.5"}, ips(a), "it is the one that was given back")
	n.detach("sandbox-5")
}

// An address that the node itself has is not given to a workload.
func TestNodeAddressInPrefix(t *testing.T) {
	nettest.NeedNode(t)
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	for _, own := range []string{"10.88.0.2/24", "fd00:88::3/64"} {
		addr, err := netlink.ParseAddr(own)
		require.NoError(t, err)
		require.NoError(t, netlink.AddrAdd(lo, addr))
		t.Cleanup(func() { assert.NoError(t, netlink.AddrDel(lo, addr)) })
	}
	n := newNode(t).start()
	assert.Equal(t, []string{"10.88.0.4", "fd00:88::4"}, ips(n.attach(nettest.NewPod(t), "sandbox-1")))
	assert.Equal(t, 2, n.logs.FilterMessageSnippet("is the node's own").Len())
}

// 50 at once: all get their own addresses, and all are gone when they are gone.
func TestAttachManyAtOnce(t *testing.T) {
	n := newNode(t).start()
	before := nettest.NodeState(t)
	pods := make([]*nettest.Pod, 50)
	for i := range pods {
		pods[i] = nettest.NewPod(t)
	}
	seen := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() {
			answer, err := n.client.Attach(context.Background(), request(pod, fmt.Sprint("sandbox-", i)))
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, ip := range ips(answer.Attachment) {
				assert.False(t, seen[ip], "%s was given twice", ip)
				seen[ip] = true
				assert.Equal(t, fmt.Sprint("shop/pod-sandbox-", i), n.resolve(ip))
			}
		})
	}
	wg.Wait()
	assert.Len(t, n.list(), 50)
	for i := range pods {
		wg.Go(func() {
			_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: fmt.Sprint("sandbox-", i)})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	n.waitReaped()
	assert.Equal(t, before, nettest.NodeState(t))
}

func TestDetachLeavesAnothersLinkAlone(t *testing.T) {
	n := newNode(t).start()
	pod := nettest.NewPod(t)
	a := n.attach(pod, "sandbox-1")
	link, err := netlink.LinkByName(a.HostInterface)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetAlias(link, "somebody's"))
	before := nettest.NodeState(t)

	_, err = n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: "sandbox-1"})
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
	assert.ErrorContains(t, err, a.HostInterface)
	assert.Equal(t, before, nettest.NodeState(t))
	assert.Len(t, n.list(), 1, "it is still attached, and its addresses are still taken")
	answer, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
	require.NoError(t, err)
	assert.True(t, proto.Equal(a, answer.Attachment))
	require.NoError(t, netlink.LinkSetAlias(link, "workloadnet sandbox-1"))
}

// After a Detach that failed nobody is told that the workload is attached: its link
// may be off the network. The Detach has to be repeated.
func TestDetachFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(s *service) (restore func())
	}{
		{"the link can't be taken down", func(s *service) func() {
			s.network.Fault = func(veth.Step) error { return errors.New("injected") }
			return func() { s.network.Fault = nil }
		}},
		{"the storage fails when the link is down", func(s *service) func() {
			working := s.journal
			s.journal = brokenJournal(t)
			return func() { s.journal = working }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t).start()
			pod := nettest.NewPod(t)
			n.attach(pod, "sandbox-1")
			restore := tt.fault(n.ext.service)
			_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: "sandbox-1"})
			require.Error(t, err)
			restore()

			other := request(pod, "sandbox-1")
			other.Workload.Name = "other"
			for _, r := range []*pb.AttachRequest{request(pod, "sandbox-1"), other} {
				_, err := n.client.Attach(context.Background(), r)
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.ErrorContains(t, err, `workload_id: "sandbox-1" is being detached, and its Detach has not finished: detach it again first`)
			}
			assert.Len(t, n.list(), 1, "its addresses are still taken")

			n.detach("sandbox-1")
			a := n.attach(pod, "sandbox-1")
			assert.Len(t, nettest.Lines(nettest.NodeState(t), "link "+a.HostInterface, "up|"), 1)
			assert.Equal(t, []string{"10.88.0.3", "fd00:88::3"}, ips(a))
		})
	}
}

// The reaper deletes all links that are off the network at once, one whose Detach
// has failed as well: that is no namespace that was deleted.
func TestDetachFailsAndTheLinkIsReaped(t *testing.T) {
	n := newNode(t).start()
	s := n.ext.service
	n.attach(nettest.NewPod(t), "sandbox-1")
	working := s.journal
	s.journal = brokenJournal(t)
	_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: "sandbox-1"})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.NoError(t, s.network.Reap())
	eventually(t, func(c *assert.CollectT) { assert.Empty(c, n.list()) })
	s.journal = working
	n.stop() // nothing is logged any more
	assert.Zero(t, n.logs.FilterMessageSnippet("link was deleted without a Detach").Len())
}

// A link that joins a bridge and leaves it is still there.
func TestLinkLeavesABridge(t *testing.T) {
	n := newNode(t).start()
	a := n.attach(nettest.NewPod(t), "sandbox-1")
	gone := nettest.NewPod(t)
	n.attach(gone, "sandbox-2")
	require.NoError(t, addBridge("br"))
	bridge, err := netlink.LinkByName("br")
	require.NoError(t, err)
	defer func() { assert.NoError(t, netlink.LinkDel(bridge)) }()
	link, err := netlink.LinkByName(a.HostInterface)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMaster(link, bridge))
	require.NoError(t, netlink.LinkSetNoMaster(link))
	gone.Close()
	// What was told of the bridge was told before.
	eventually(t, func(c *assert.CollectT) {
		for _, a := range n.list() {
			assert.NotEqual(c, "sandbox-2", a.WorkloadId)
		}
	})
	list := n.list()
	require.Len(t, list, 1)
	assert.True(t, proto.Equal(a, list[0]))
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("link was deleted without a Detach").Len())
}

func TestDetachRefusesBadID(t *testing.T) {
	n := newNode(t).start()
	_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: "a b"})
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
	assert.ErrorContains(t, err, "workload_id: ")
}

// A workload whose namespace is deleted without a Detach is noticed: its lease
// ends, and its addresses cool down.
func TestNamespaceDeleted(t *testing.T) {
	n := newNode(t).start()
	pod := nettest.NewPod(t)
	a := n.attach(pod, "sandbox-1")
	other := n.attach(nettest.NewPod(t), "sandbox-2")
	pod.Close()
	eventually(t, func(c *assert.CollectT) {
		list := n.list()
		if assert.Len(c, list, 1) {
			assert.Equal(c, other.WorkloadId, list[0].WorkloadId)
		}
	})
	assert.Equal(t, "ended", n.resolve(ips(a)[0]))
	answer, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, uint32(1), answer.Cooling)
	n.detach("sandbox-1")
}

func TestNamespaceError(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "x", Err: unix.EACCES}
	for path, want := range map[string]string{
		"/proc/1/ns/net": "CAP_SYS_PTRACE", "/run/netns/x": "CAP_DAC_READ_SEARCH",
	} {
		err := toStatus(namespaceError(path, denied))
		assert.Equal(t, codes.PermissionDenied, status.Code(err))
		assert.ErrorContains(t, err, want)
	}
}
