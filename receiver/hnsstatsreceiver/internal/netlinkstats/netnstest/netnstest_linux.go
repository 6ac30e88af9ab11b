// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netnstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Node is a network namespace that plays the node. The test's goroutine is
// in it, on a thread of its own.
type Node struct {
	testing.TB
	fd int
}

var lastPod atomic.Int64

// The process's first thread, by which the kernel takes the whole process to
// be where it is, stays out of the tests.
func init() { runtime.LockOSThread() }

// NewNode moves the test into a namespace of its own.
func NewNode(tb testing.TB) *Node {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root, to make network namespaces")
	}
	n := &Node{TB: tb}
	n.move(tb, func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	var err error
	n.fd, err = currentNamespace()
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, unix.Close(n.fd)) })
	n.IP("link set lo up")
	return n
}

// Enter moves a test or benchmark within the node's, which runs on another
// goroutine, into the node too.
func (n *Node) Enter(tb testing.TB) {
	tb.Helper()
	n.move(tb, func() error { return unix.Setns(n.fd, unix.CLONE_NEWNET) })
}

// Within runs f on a thread in the node.
func (n *Node) Within(f func() error) error { return within(n.fd, f) }

// move locks the goroutine to a thread in another namespace, until the test
// ends.
func (n *Node) move(tb testing.TB, enter func() error) {
	tb.Helper()
	runtime.LockOSThread()
	before, err := currentNamespace()
	require.NoError(tb, err)
	require.NoError(tb, enter())
	tb.Cleanup(func() {
		require.NoError(tb, unix.Setns(before, unix.CLONE_NEWNET))
		require.NoError(tb, unix.Close(before))
		runtime.UnlockOSThread()
	})
}

func currentNamespace() (fd int, err error) {
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// IP runs iproute2 in the node, one line a command.
func (n *Node) IP(lines string) {
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

// Pod is a network namespace that plays a pod.
type Pod struct {
	*Node
	NetNS string // its name for iproute2
}

// Pod makes an empty namespace.
func (n *Node) Pod() *Pod {
	n.Helper()
	p := &Pod{Node: n, NetNS: fmt.Sprintf("hnsstats-%d-%d", os.Getpid(), lastPod.Add(1))}
	p.Create()
	n.Cleanup(func() {
		if _, err := os.Stat(p.Path()); err == nil {
			p.Delete()
		}
	})
	return p
}

// Create makes the namespace.
func (p *Pod) Create() { p.Helper(); ipBatch(p, nil, "netns add "+p.NetNS) }

// Delete ends the namespace, which the kernel does by and by.
func (p *Pod) Delete() { p.Helper(); ipBatch(p, nil, "netns del "+p.NetNS) }

// Path is where the namespace is mounted.
func (p *Pod) Path() string { return filepath.Join("/run/netns", p.NetNS) }

// Inside runs iproute2 in the pod.
func (p *Pod) Inside(lines string) { p.Helper(); ipBatch(p, []string{"-n", p.NetNS}, lines) }

// Within runs f on a thread in the pod.
func (p *Pod) Within(f func() error) error {
	fd, err := unix.Open(p.Path(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return within(fd, f)
}

func within(fd int, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Setns(fd, unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// Inode is the namespace's.
func (p *Pod) Inode() uint64 {
	var st unix.Stat_t
	require.NoError(p, unix.Stat(p.Path(), &st))
	return st.Ino
}

// Veth connects the pod by a veth whose host end is called host.
func (p *Pod) Veth(host, inPod string, addresses ...string) *Pod {
	p.Helper()
	p.IP(fmt.Sprintf("link add %s type veth peer name %s netns %s\nlink set %s up", host, inPod, p.NetNS, host))
	p.Up(inPod, addresses...)
	return p
}

// Up gives an interface of the pod its addresses and sets it up.
func (p *Pod) Up(inPod string, addresses ...string) {
	p.Helper()
	lines := "link set " + inPod + " up\n"
	for _, a := range addresses {
		lines += fmt.Sprintf("addr add %s dev %s", a, inPod)
		if strings.Contains(a, ":") {
			lines += " nodad"
		}
		lines += "\n"
	}
	p.Inside(lines)
}

// Send sends count UDP datagrams of size bytes from the pod.
func (p *Pod) Send(to string, count, size int) {
	p.Helper()
	require.NoError(p, p.Within(func() error {
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

// Eventually waits for what the kernel does by and by: neighbour discovery,
// the end of a namespace.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	require.Eventually(tb, condition, time.Minute, 10*time.Millisecond, what)
}

// Pods makes pods that are connected to a bridge, with addresses from
// 10.2.0.1 on. The bridge is 10.1.0.1.
func (n *Node) Pods(count int) []*Pod {
	n.IP("link add br0 type bridge\naddr add 10.1.0.1/8 dev br0\nlink set br0 up")
	pods := make([]*Pod, count)
	lines := ""
	for i := range pods {
		pods[i] = n.Pod()
		lines += fmt.Sprintf("link add v%d type veth peer name eth0 netns %s\nlink set v%d up master br0\n", i, pods[i].NetNS, i)
	}
	n.IP(lines)
	for i, p := range pods {
		p.Inside(fmt.Sprintf("addr add 10.2.%d.%d/8 dev eth0\nlink set eth0 up", i/250, i%250+1))
	}
	return pods
}
