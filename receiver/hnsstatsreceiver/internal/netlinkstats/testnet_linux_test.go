// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// testNode is a network namespace that plays the node. The test's goroutine is
// in it, on a thread of its own.
type testNode struct {
	testing.TB
}

var lastPod atomic.Int64

// The process's first thread, by which the kernel takes the whole process to
// be where it is, stays out of the tests.
func init() { runtime.LockOSThread() }

// newNode moves the test into a namespace of its own.
func newNode(tb testing.TB) *testNode {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root, to make network namespaces")
	}
	runtime.LockOSThread()
	before, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(tb, err)
	require.NoError(tb, unix.Unshare(unix.CLONE_NEWNET))
	tb.Cleanup(func() {
		require.NoError(tb, unix.Setns(before, unix.CLONE_NEWNET))
		require.NoError(tb, unix.Close(before))
		runtime.UnlockOSThread()
	})
	n := &testNode{TB: tb}
	n.ip("link set lo up")
	return n
}

// ip runs iproute2 in the node, one line a command.
func (n *testNode) ip(lines string) {
	n.Helper()
	ipBatch(n, nil, lines)
}

func ipBatch(tb testing.TB, arguments []string, lines string) {
	tb.Helper()
	cmd := exec.Command("ip", append(arguments, "-batch", "-")...)
	cmd.Stdin = strings.NewReader(lines)
	out, err := cmd.CombinedOutput()
	require.NoErrorf(tb, err, "ip %s\n%s\n%s", strings.Join(arguments, " "), lines, out)
}

// testPod is a network namespace that plays a pod.
type testPod struct {
	*testNode
	name string
}

// pod makes an empty namespace.
func (n *testNode) pod() *testPod {
	n.Helper()
	p := &testPod{testNode: n, name: fmt.Sprintf("hnsstats-%d-%d", os.Getpid(), lastPod.Add(1))}
	p.create()
	n.Cleanup(func() {
		if _, err := os.Stat(p.path()); err == nil {
			p.delete()
		}
	})
	return p
}

func (p *testPod) create() { p.Helper(); ipBatch(p, nil, "netns add "+p.name) }
func (p *testPod) delete() { p.Helper(); ipBatch(p, nil, "netns del "+p.name) }

func (p *testPod) path() string { return filepath.Join("/run/netns", p.name) }

// inside runs iproute2 in the pod.
func (p *testPod) inside(lines string) { p.Helper(); ipBatch(p, []string{"-n", p.name}, lines) }

// within runs f on a thread in the pod.
func (p *testPod) within(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		fd, err := unix.Open(p.path(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Close(fd))
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

func (p *testPod) inode() uint64 {
	var st unix.Stat_t
	require.NoError(p, unix.Stat(p.path(), &st))
	return st.Ino
}

// veth connects the pod by a veth whose host end is called host.
func (p *testPod) veth(host, inPod string, addresses ...string) *testPod {
	p.Helper()
	p.ip(fmt.Sprintf("link add %s type veth peer name %s netns %s\nlink set %s up", host, inPod, p.name, host))
	p.up(inPod, addresses...)
	return p
}

// up gives an interface of the pod its addresses and sets it up.
func (p *testPod) up(inPod string, addresses ...string) {
	p.Helper()
	lines := "link set " + inPod + " up\n"
	for _, a := range addresses {
		lines += fmt.Sprintf("addr add %s dev %s", a, inPod)
		if strings.Contains(a, ":") {
			lines += " nodad"
		}
		lines += "\n"
	}
	p.inside(lines)
}

// send sends count UDP datagrams of size bytes from the pod.
func (p *testPod) send(to string, count, size int) {
	p.Helper()
	require.NoError(p, p.within(func() error {
		c, err := net.Dial("udp", net.JoinHostPort(to, "9"))
		if err != nil {
			return err
		}
		defer c.Close()
		for sent := 0; sent < count; {
			_, err := c.Write(make([]byte, size))
			switch {
			case err == nil:
				sent++
			case !errors.Is(err, unix.ECONNREFUSED): // the answer to an earlier one, in place of a send
				return err
			}
		}
		return nil
	}))
}

// counts is what the kernel says of an interface, read inside the pod the
// common way.
func (p *testPod) counts(inPod string) (c counters) {
	p.Helper()
	require.NoError(p, p.within(func() error {
		b, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			name, values, ok := strings.Cut(line, ":")
			if !ok || strings.TrimSpace(name) != inPod {
				continue
			}
			f := strings.Fields(values)
			at := func(i int) uint64 {
				v, err := strconv.ParseUint(f[i], 10, 64)
				require.NoError(p, err)
				return v
			}
			c = counters{
				rxBytes: at(0), rxPackets: at(1), rxErrors: at(2), rxDropped: at(3),
				txBytes: at(8), txPackets: at(9), txErrors: at(10), txDropped: at(11),
			}
			return nil
		}
		return fmt.Errorf("no %s in %s", inPod, b)
	}))
	return c
}

// started is a Source in the node.
func (n *testNode) started(options ...func(*Source)) *Source {
	n.Helper()
	s := New(Config{}, zaptest.NewLogger(n))
	for _, o := range options {
		o(s)
	}
	require.NoError(n, s.Start(context.Background()))
	n.Cleanup(func() { require.NoError(n, s.Close()) })
	return s
}

// sighting is what one visit said.
type sighting struct {
	*endpoint.Endpoint
	endpoint.Counters
	errors [endpoint.NumDirections]uint64
	tcp    *endpoint.TCP
}

// read is a Read without an error, by pod namespace and interface.
func (n *testNode) read(s *Source) map[string]sighting {
	n.Helper()
	seen, err := collect(s)
	require.NoError(n, err)
	byName := map[string]sighting{}
	for _, e := range seen {
		key := fmt.Sprintf("%d/%s", e.NetNS, e.Interface)
		require.NotContains(n, byName, key, "visited twice")
		byName[key] = e
	}
	return byName
}

func collect(s *Source) (seen []sighting, err error) {
	err = s.Read(context.Background(), func(e *endpoint.Endpoint, c *endpoint.Counters) {
		sight := sighting{Endpoint: e, Counters: *c, errors: *c.Errors} // the pointers are valid only now
		if c.TCP != nil {
			tcp := *c.TCP
			sight.tcp = &tcp
		}
		seen = append(seen, sight)
	})
	return seen, err
}

func (p *testPod) key(inPod string) string { return fmt.Sprintf("%d/%s", p.inode(), inPod) }

func addrs(s ...string) (list []netip.Addr) {
	for _, a := range s {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

// requireCounts compares a sighting with the kernel's counters in the pod.
// Drops are the host end's affair: see TestDrops.
func requireCounts(tb testing.TB, want counters, got sighting) {
	tb.Helper()
	const receive, transmit = endpoint.Receive, endpoint.Transmit
	require.Equal(tb, want.rxBytes, got.Bytes[receive], "bytes received")
	require.Equal(tb, want.txBytes, got.Bytes[transmit], "bytes transmitted")
	require.Equal(tb, want.rxPackets, got.Packets[receive], "packets received")
	require.Equal(tb, want.txPackets, got.Packets[transmit], "packets transmitted")
	require.Equal(tb, [2]uint64{want.rxErrors, want.txErrors}, got.errors, "errors")
}

// readStill is read at a moment when the pod's interface counts nothing: the
// kernel talks of its own accord, as for neighbour discovery.
func (n *testNode) readStill(s *Source, p *testPod, inPod string) (got map[string]sighting, want counters) {
	n.Helper()
	eventually(n, "the interface is still", func() bool {
		want = p.counts(inPod)
		got = n.read(s)
		return p.counts(inPod) == want
	})
	return got, want
}

// eventually waits for what the kernel does by and by: neighbour discovery,
// the end of a namespace.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	require.Eventually(tb, condition, 10*time.Second, 10*time.Millisecond, what)
}
