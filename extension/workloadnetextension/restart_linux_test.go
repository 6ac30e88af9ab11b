// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
)

func TestRestartForgetsNothing(t *testing.T) {
	n := newNode(t).start()
	a, b := nettest.NewPod(t), nettest.NewPod(t)
	n.attach(a, "sandbox-a")
	n.attach(b, "sandbox-b")
	before := n.list()
	state := nettest.NodeState(t)

	// A connection that outlives the collector.
	var listener net.Listener
	var conn net.Conn
	var err error
	b.Do(func() { listener, err = net.Listen("tcp", "[fd00:88::3]:0") })
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	a.Do(func() { conn, err = net.Dial("tcp", listener.Addr().String()) })
	require.NoError(t, err)
	defer conn.Close()
	echo := func(word string) {
		t.Helper()
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		_, err := io.WriteString(conn, word)
		require.NoError(t, err)
		answer := make([]byte, len(word))
		_, err = io.ReadFull(conn, answer)
		require.NoError(t, err)
		assert.Equal(t, word, string(answer))
	}

	echo("before")
	n.stop()
	assert.Equal(t, state, nettest.NodeState(t), "the data path is not the collector's")
	echo("without a collector")
	n.start()
	echo("after")

	after := n.list()
	require.Len(t, after, 2)
	for i := range after {
		assert.True(t, proto.Equal(before[i], after[i]), "%v\n%v", before[i], after[i])
	}
	assert.Equal(t, state, nettest.NodeState(t))
	assert.Equal(t, "shop/pod-sandbox-a", n.resolve("10.88.0.2"), "it is published again")
	assert.Equal(t, "shop/pod-sandbox-b", n.resolve("fd00:88::3"))

	answer, err := n.client.Attach(context.Background(), request(a, "sandbox-a"))
	require.NoError(t, err)
	assert.True(t, proto.Equal(before[0], answer.Attachment), "the same request still gets the same answer")
	c := n.attach(nettest.NewPod(t), "sandbox-c")
	assert.Equal(t, []string{"10.88.0.4", "fd00:88::4"}, ips(c), "addresses in use are not given again")
}

func TestRestartKeepsTheCoolDown(t *testing.T) {
	n := newNode(t, "10.88.0.0/30").start() // one address
	n.attach(nettest.NewPod(t), "sandbox-1")
	n.detach("sandbox-1")
	n.stop()
	n.start()
	_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-2"))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "1 cooling down")
}

// The storage holds an earlier release of the same address, which has cooled down
// long ago: it does not shorten the cool-down of the last one.
func TestRestartKeepsTheCoolDownOfTheLastRelease(t *testing.T) {
	for _, tt := range []struct {
		name     string
		end      func(n *node, pod *nettest.Pod)
		coolDown time.Duration // after the restart
	}{
		{"detached", func(n *node, _ *nettest.Pod) {
			n.detach("sandbox-1")
			n.stop()
		}, time.Minute},
		{"gone while the collector was away", func(n *node, pod *nettest.Pod) {
			n.stop()
			found, err := veth.Network{}.List()
			require.NoError(n.tb, err)
			require.Len(n.tb, found, 1)
			require.NoError(n.tb, veth.Network{}.Delete(found[0].Index))
		}, time.Minute},
		{"detached, and the cool-down was made longer", func(n *node, _ *nettest.Pod) {
			n.detach("sandbox-1")
			n.stop()
		}, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, "10.88.0.0/30") // one address
			n.withStorage(func(client storage.Client) {
				j, _, err := journal.Open(context.Background(), client, time.Hour)
				require.NoError(t, err)
				earlier := &journal.Attachment{WorkloadID: "sandbox-0", Addresses: []netip.Addr{netip.MustParseAddr("10.88.0.2")}}
				require.NoError(t, j.Release(earlier, time.Now().Add(-270*time.Second)))
				require.NoError(t, j.Close(context.Background()))
			})
			n.start()
			pod := nettest.NewPod(t)
			n.attach(pod, "sandbox-1")
			tt.end(n, pod)
			n.cfg.CoolDown = tt.coolDown
			n.start()
			_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-2"))
			assert.Equal(t, codes.ResourceExhausted, status.Code(err))
			pool, _, err := n.ext.service.addresses.Known()
			require.NoError(t, err)
			assert.Equal(t, 1, pool.Counts(time.Now().Add(45*time.Second)).Cooling, "it has just begun")
		})
	}
}

// What a collector that was cut short, at any point, leaves behind, and what else
// may have happened to the links while none was running.
func TestReconcile(t *testing.T) {
	n := newNode(t)
	pods := map[string]*nettest.Pod{}
	for _, id := range []string{"kept", "unmarked", "gone", "doomed", "flushed", "renamed", "remnant", "doomed-unknown"} {
		pods[id] = nettest.NewPod(t)
	}
	n.start()
	attached := map[string]*pb.Attachment{}
	for _, id := range []string{"kept", "unmarked", "gone", "doomed", "flushed", "renamed"} {
		attached[id] = n.attach(pods[id], id)
	}
	n.stop()

	link := func(id string) netlink.Link {
		l, err := netlink.LinkByName(attached[id].HostInterface)
		require.NoError(t, err)
		return l
	}
	// Between Put and Mark of an Attach.
	require.NoError(t, netlink.LinkSetAlias(link("unmarked"), ""))
	// The namespace was deleted.
	require.NoError(t, netlink.LinkDel(link("gone")))
	// Between Doom and Release of a Detach.
	require.NoError(t, veth.Network{}.Doom(link("doomed").Attrs().Index, "doomed"))
	// Somebody flushed the node's routes.
	require.NoError(t, netlink.LinkSetDown(link("flushed")))
	// Somebody renamed the link.
	require.NoError(t, netlink.LinkSetName(link("renamed"), "mylink"))
	// Before Put of an Attach, and after Release of a Detach.
	for _, id := range []string{"remnant", "doomed-unknown"} {
		ns, err := veth.OpenNetNS(pods[id].Path())
		require.NoError(t, err)
		c, err := veth.Network{}.Create(context.Background(), ns, veth.Spec{WorkloadID: id, IfName: "eth0", Addresses: []netip.Addr{unusedAddr(id)}})
		require.NoError(t, err)
		if id == "doomed-unknown" {
			require.NoError(t, veth.Network{}.Mark(c.Link().HostIndex, id))
			require.NoError(t, veth.Network{}.Doom(c.Link().HostIndex, id))
		}
		c.Close()
		require.NoError(t, ns.Close())
	}

	n.start()
	var ids []string
	for _, a := range n.list() {
		ids = append(ids, a.WorkloadId)
	}
	assert.Equal(t, []string{"flushed", "kept", "renamed", "unmarked"}, ids)
	n.waitReaped()
	found, err := veth.Network{}.List()
	require.NoError(t, err)
	assert.Len(t, found, 4, "no orphan link")
	for _, f := range found {
		assert.Equal(t, veth.Marked, f.State, f.Name)
	}
	for _, id := range ids {
		for _, ip := range ips(attached[id]) {
			assert.Equal(t, "shop/pod-"+id, n.resolve(ip))
			assert.Len(t, nettest.Lines(nettest.NodeState(t), "route "+ip+"/", "table 254"), 1, "%s of %s", ip, id)
		}
	}
	for _, id := range []string{"gone", "doomed"} {
		assert.NotContains(t, n.resolve(ips(attached[id])[0]), "pod-")
	}
	answer, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, uint32(4), answer.Attachments)
	assert.Equal(t, uint32(2), answer.Cooling, "addresses of workloads that are gone cool down from now on")
	list, err := n.client.List(context.Background(), &pb.ListRequest{WorkloadId: "renamed"})
	require.NoError(t, err)
	assert.Equal(t, "mylink", list.Attachments[0].HostInterface)

	// Another restart finds all of it as it is.
	state := nettest.NodeState(t)
	before := n.list()
	n.stop()
	n.start()
	assert.Equal(t, len(before), len(n.list()))
	assert.Equal(t, state, nettest.NodeState(t))
}

// unusedAddr is an address that the test's other workloads don't have.
func unusedAddr(id string) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 88, 0, byte(100 + len(id))})
}

// withStorage calls f with the storage client of the extension, which is stopped.
func (n *node) withStorage(f func(storage.Client)) {
	n.tb.Helper()
	require.Nil(n.tb, n.ext)
	other := &node{tb: n.tb, dir: n.dir, cfg: n.cfg}
	other.host = &host{extensions: map[component.ID]component.Component{}}
	ext := other.addStorage()
	client, err := ext.(storage.Extension).GetClient(context.Background(), component.KindExtension, component.MustNewID("workloadnet"), "")
	require.NoError(n.tb, err)
	f(client)
	require.NoError(n.tb, client.Close(context.Background()))
	require.NoError(n.tb, ext.Shutdown(context.Background()))
}

// Without its record a workload keeps its network; only its name is lost.
func TestStorageLost(t *testing.T) {
	n := newNode(t).start()
	pod := nettest.NewPod(t)
	a := n.attach(pod, "sandbox-1")
	n.stop()
	n.withStorage(func(client storage.Client) {
		for i := range 256 {
			require.NoError(t, client.Delete(context.Background(), fmt.Sprintf("attachments/%02x", i)))
		}
	})
	state := nettest.NodeState(t)
	n.start()
	assert.Equal(t, state, nettest.NodeState(t))
	list := n.list()
	require.Len(t, list, 1)
	assert.Equal(t, ips(a), ips(list[0]))
	assert.Equal(t, a.HostInterface, list[0].HostInterface)
	assert.Nil(t, list[0].Workload)
	assert.Equal(t, "unknown", n.resolve("10.88.0.2"), "no name is guessed")
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("their names are not known").Len())
	assert.Equal(t, []string{"10.88.0.3", "fd00:88::3"}, ips(n.attach(nettest.NewPod(t), "sandbox-2")))

	_, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
	assert.Equal(t, codes.AlreadyExists, status.Code(err), "its request is not known any more")
	n.detach("sandbox-1")
	n.waitReaped()
	a = n.attach(pod, "sandbox-1")
	assert.Equal(t, "shop/pod-sandbox-1", n.resolve(ips(a)[0]))
}

func TestStorageDamaged(t *testing.T) {
	n := newNode(t).start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	n.stop()
	n.withStorage(func(client storage.Client) {
		for i := range 256 {
			key := fmt.Sprintf("attachments/%02x", i)
			value, err := client.Get(context.Background(), key)
			require.NoError(t, err)
			if value != nil {
				require.NoError(t, client.Set(context.Background(), key, value[:len(value)/2]))
			}
		}
	})
	n.start()
	assert.Len(t, n.list(), 1)
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("A part of the storage is damaged").Len())
}

// Damaged prefixes are no workloads'.
func TestStoredPrefixesDamaged(t *testing.T) {
	n := newNode(t)
	n.withStorage(func(client storage.Client) {
		require.NoError(t, client.Set(context.Background(), "prefixes", []byte(`{`)))
	})
	n.start()
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("A part of the storage is damaged: the node's podCIDRs are not known").Len())
	assert.Zero(t, n.logs.FilterMessageSnippet("the workloads in it").Len())
}

func TestStorageOfALaterVersion(t *testing.T) {
	n := newNode(t)
	n.withStorage(func(client storage.Client) {
		require.NoError(t, client.Set(context.Background(), "attachments/00", []byte(`{"version":2}`)))
	})
	assert.ErrorContains(t, n.tryStart(), `storage: "file_storage": storage key "attachments/00": written by a later version`)
}

// A change of prefixes leaves alone what is attached.
func TestPrefixesChange(t *testing.T) {
	n := newNode(t, "10.88.0.0/24").start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	n.stop()
	n.cfg.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/24"), netip.MustParsePrefix("fd00:99::/64")}
	n.start()
	assert.Equal(t, []string{"10.88.0.2"}, ips(n.list()[0]))
	assert.Equal(t, "shop/pod-sandbox-1", n.resolve("10.88.0.2"))
	assert.Equal(t, []string{"10.99.0.2", "fd00:99::2"}, ips(n.attach(nettest.NewPod(t), "sandbox-2")))
	n.detach("sandbox-1")
	assert.Len(t, n.list(), 1)
}

// While the storage fails nothing changes, and the component says so, once.
func TestStorageFails(t *testing.T) {
	n := newNode(t).start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	s, working := n.ext.service, n.ext.service.journal
	s.journal = brokenJournal(t)
	for range 3 {
		_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-2"))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorContains(t, err, "disk full")
	}
	_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: "sandbox-1"})
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Len(t, n.list(), 1)
	s.journal = working
	n.detach("sandbox-1")
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("The storage fails").Len())
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("The storage works again").Len())
	e := <-n.host.events
	assert.ErrorIs(t, e.Err(), journal.ErrStorage)
	e = <-n.host.events
	assert.NoError(t, e.Err())
}

// Status tells of a storage that fails, and finds out by itself that it works again.
func TestStatusWhileTheStorageFails(t *testing.T) {
	n := newNode(t).start()
	s, working := n.ext.service, n.ext.service.journal
	s.journal = brokenJournal(t)
	_, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	require.NoError(t, err, "nobody knows yet")
	_, err = n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-1"))
	require.Equal(t, codes.Unavailable, status.Code(err))
	for range 3 {
		_, err = n.client.Status(context.Background(), &pb.StatusRequest{})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorContains(t, err, "disk full")
	}
	s.journal = working
	_, err = n.client.Status(context.Background(), &pb.StatusRequest{})
	assert.NoError(t, err)
	require.Len(t, n.host.events, 2, "each change is reported once")
	assert.ErrorIs(t, (<-n.host.events).Err(), journal.ErrStorage)
	assert.Equal(t, componentstatus.StatusOK, (<-n.host.events).Status())
}

// While one call tries the storage, the others do not wait for it.
func TestStatusWhileTheStorageHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		j, _, err := journal.Open(t.Context(), hangingStorage{storage.NewNopClient(), hang}, 0)
		require.NoError(t, err)
		s := newService(zap.NewNop(), nil, nil, func(*componentstatus.Event) {})
		s.journal = j
		require.NoError(t, s.addresses.Use([]netip.Prefix{netip.MustParsePrefix("10.88.0.0/24")}))
		_ = s.stored(errBroken)
		tried := make(chan error, 1)
		go func() {
			_, err := s.Status(t.Context(), nil)
			tried <- err
		}()
		synctest.Wait()
		_, err = s.Status(t.Context(), nil)
		assert.ErrorContains(t, err, "disk full")
		close(hang)
		assert.NoError(t, <-tried)
		_, err = s.Status(t.Context(), nil)
		assert.NoError(t, err)
		require.NoError(t, j.Close(t.Context()))
	})
}

// hangingStorage is a storage client that reads nothing, and whose writes wait.
type hangingStorage struct {
	storage.Client
	until <-chan struct{}
}

func (h hangingStorage) Batch(_ context.Context, ops ...*storage.Operation) error {
	for _, op := range ops {
		if op.Type != storage.Get {
			<-h.until
		}
	}
	return nil
}

// What is wrong with one thing stays reported when another is all right again.
func TestStatusOfTwoConcerns(t *testing.T) {
	var reported []string
	s := newService(zap.NewNop(), nil, nil, func(e *componentstatus.Event) {
		reported = append(reported, fmt.Sprintf("%s: %v", e.Status(), e.Err()))
	})
	full, other := errors.New("disk full"), errors.New("other podCIDRs")
	for _, change := range []struct {
		concern concern
		err     error
	}{{theStorage, nil}, {theStorage, full}, {theStorage, full}, {thePrefixes, other}, {theStorage, nil}, {theStorage, full}, {thePrefixes, nil}, {theStorage, nil}} {
		s.note(change.concern, change.err)
	}
	assert.Equal(t, []string{
		"StatusRecoverableError: disk full",
		"StatusRecoverableError: disk full\nother podCIDRs",
		"StatusRecoverableError: other podCIDRs",
		"StatusRecoverableError: disk full\nother podCIDRs",
		"StatusRecoverableError: disk full",
		"StatusOK: <nil>",
	}, reported)
}
