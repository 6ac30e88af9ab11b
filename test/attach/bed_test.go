// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// patience bounds every wait of these tests; it is long because machines of
// continuous integration are slow, and no test measures it.
const patience = 60 * time.Second

// The node's own addresses, beside the pods' prefixes.
var (
	nodeV4   = netip.MustParseAddr("192.0.2.1")
	nodeV6   = netip.MustParseAddr("2001:db8::1")
	prefixes = []netip.Prefix{netip.MustParsePrefix("10.88.0.0/22"), netip.MustParsePrefix("fd00:88::/64")}
)

// bed is a node with a containerd that has cniproxy in it.
type bed struct {
	*cri.Node
	runtime *cri.Runtime
	// dir holds what is beside the node's own: the service's socket.
	dir     string
	conn    *grpc.ClientConn
	service pb.WorkloadNetworkingClient

	// Of the test that runs on it: what outlives the collector, and how often the
	// collector reads the pods' counters.
	storage  string
	interval time.Duration
}

// beds are up from their first test to the last, or to one that fails.
var beds = map[string]*bed{}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, b := range beds {
		if err := b.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// onEachRuntime runs f for each containerd version, on a bed without pods whose
// containerd is up and whose network is not: no collector runs yet.
func onEachRuntime(t *testing.T, f func(t *testing.T, b *bed)) {
	versions := strings.Fields(os.Getenv("ATTACH_CONTAINERD"))
	if len(versions) == 0 {
		versions = []string{"1.7", "2.2"}
	}
	for _, version := range versions {
		t.Run("containerd-"+version, func(t *testing.T) {
			need(t)
			b := beds[version]
			if b == nil {
				var err error
				b, err = newBed(version)
				require.NoError(t, err)
				beds[version] = b
			}
			t.Setenv(socketVariable, b.socket()) // for tests that start containerd again
			b.storage, b.interval = t.TempDir(), 10*time.Second
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("containerd's log: %s", filepath.Join(b.Dir, "logs/containerd.log"))
					delete(beds, version)
					assert.NoError(t, b.close())
				}
			})
			f(t, b)
			if !t.Failed() {
				sandboxes, err := b.runtime.Sandboxes(t.Context())
				require.NoError(t, err)
				require.Empty(t, sandboxes, "the test has left pods")
			}
		})
	}
}

// socketVariable is where cniproxy in containerd reads the socket's path.
const socketVariable = "WORKLOADNET_SOCKET"

func newBed(version string) (b *bed, err error) {
	stateDir := os.Getenv("CRIBED_DIR")
	if stateDir == "" {
		stateDir = "/tmp/otelcol-retina-attach"
	}
	b = &bed{}
	if b.dir, err = os.MkdirTemp("", "wn"); err != nil { // a socket's path can't be long
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := os.Setenv(socketVariable, b.socket()); err != nil { // containerd inherits it
		return b, err
	}
	ctx := context.Background()
	if b.Node, err = cri.Up(ctx, "../cri", stateDir+"-"+version, version+"-workloadnet"); err != nil {
		return b, err
	}
	for _, addr := range []netip.Addr{nodeV4, nodeV6} {
		if out, err := b.Command(ctx, "ip", "address", "add", addr.String(), "dev", "lo").CombinedOutput(); err != nil {
			return b, fmt.Errorf("give the node %s: %w: %s", addr, err, out)
		}
	}
	if b.runtime, err = cri.Dial(b.Socket()); err != nil {
		return b, err
	}
	b.conn, err = grpc.NewClient("unix://"+b.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond}}))
	if err != nil {
		return b, err
	}
	b.service = pb.NewWorkloadNetworkingClient(b.conn)
	return b, nil
}

func (b *bed) close() error {
	var errs []error
	if b.conn != nil {
		errs = append(errs, b.conn.Close())
	}
	if b.runtime != nil {
		errs = append(errs, b.runtime.Close())
	}
	if b.Node != nil {
		errs = append(errs, b.Down(context.Background()))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// need says what the machine lacks for these tests.
func need(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces and runs containerd")
	}
	for file, pkg := range map[string]string{"/usr/sbin/runc": "runc", "/usr/bin/ctr": "containerd", "/usr/bin/busybox": "busybox-static", "/sbin/ip": "iproute2"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("needs %s (Debian: %s); test/install-packages.sh installs it", file, pkg)
		}
	}
	testkit.Collector(t, "../..")
}

func (b *bed) socket() string { return filepath.Join(b.dir, "run", "workloadnet.sock") }

// ready waits until containerd says that its network is ready.
func (b *bed) ready(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, b.runtime.Ready(ctx))
}

// run makes n pods "prefix-0" …, parallel at a time.
func (b *bed) run(t *testing.T, n, parallel int, prefix string) []*cri.Pod {
	t.Helper()
	pods := make([]*cri.Pod, n)
	each(n, parallel, func(i int) {
		var err error
		pods[i], err = b.runtime.RunPod(t.Context(), cri.PodSpec{Name: fmt.Sprintf("%s-%d", prefix, i), Namespace: "attach"})
		assert.NoError(t, err)
	})
	if t.Failed() {
		t.FailNow()
	}
	return pods
}

// remove stops and removes the pods.
func (b *bed) remove(t *testing.T, pods []*cri.Pod) {
	t.Helper()
	each(len(pods), 8, func(i int) { assert.NoError(t, b.runtime.RemovePod(t.Context(), pods[i].ID)) })
}

// removeAllBut stops and removes all pods but some.
func (b *bed) removeAllBut(t *testing.T, stay ...*cri.Pod) {
	t.Helper()
	sandboxes, err := b.runtime.Sandboxes(t.Context())
	require.NoError(t, err)
	sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool {
		return slices.ContainsFunc(stay, func(p *cri.Pod) bool { return p.ID == s.Id })
	})
	each(len(sandboxes), 8, func(i int) { assert.NoError(t, b.runtime.RemovePod(t.Context(), sandboxes[i].Id)) })
}

func each(n, parallel int, f func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// network is the node's links, addresses and routes, a line each, without what the
// kernel adds and counts by itself.
func (b *bed) network(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, args := range [][]string{
		{"-o", "link"}, {"-o", "address"}, {"route", "show", "table", "all"}, {"-6", "route", "show", "table", "all"},
	} {
		out, err := b.Command(t.Context(), "ip", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		lines = append(lines, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	return lines
}

// links are the names of the links that workloadnet has made.
func (b *bed) links(t *testing.T) []string {
	t.Helper()
	out, err := b.Command(t.Context(), "ip", "-o", "link", "show", "type", "veth").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var names []string
	for line := range strings.Lines(string(out)) {
		_, rest, _ := strings.Cut(line, ": ")
		name, _, _ := strings.Cut(rest, "@")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// list is what the service says is attached, by workload id.
func (b *bed) list(t *testing.T) map[string]*pb.Attachment {
	t.Helper()
	answer, err := b.service.List(t.Context(), &pb.ListRequest{})
	require.NoError(t, err)
	all := map[string]*pb.Attachment{}
	for _, a := range answer.Attachments {
		all[a.WorkloadId] = a
	}
	return all
}

func addresses(t *testing.T, a *pb.Attachment) []netip.Addr {
	t.Helper()
	var addrs []netip.Addr
	for _, address := range a.GetAddresses() {
		addr, err := netip.ParseAddr(address.Ip)
		require.NoError(t, err)
		addrs = append(addrs, addr)
	}
	return addrs
}

// dial connects from one network namespace to a listener in another.
func dial(from, to func(f func() error) error, addr netip.Addr) (client, server net.Conn, err error) {
	var listener net.Listener
	err = to(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	err = from(func() (err error) {
		client, err = net.DialTimeout("tcp", listener.Addr().String(), patience)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	server, err = listener.Accept()
	return client, server, err
}

// in returns what runs a function in the pod's network namespace.
func in(p *cri.Pod) func(func() error) error {
	return func(f func() error) error { return cri.InNetNS(p.NetNSPath(), f) }
}

func (b *bed) inNode(f func() error) error {
	return cri.InNetNS(filepath.Join(b.Dir, "ns/net"), f)
}
