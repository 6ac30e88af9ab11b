// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package nettest gives tests a node and pods made of real network namespaces.
package nettest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const inNode = "WORKLOADNET_TEST_IN_NODE"

// The node's own addresses, on its loopback interface.
var (
	NodeV4 = netip.MustParseAddr("192.0.2.1")
	NodeV6 = netip.MustParseAddr("2001:db8::1")
)

// EnterNode is for TestMain: it runs the test binary again in a network
// namespace of its own, with the addresses of a node, and exits with its result.
// Without root it returns, and NeedNode skips the tests that need it.
func EnterNode() {
	if os.Getenv(inNode) != "" {
		if err := setUpNode(); err != nil {
			fmt.Fprintln(os.Stderr, "set up the test's node:", err)
			os.Exit(1)
		}
		return
	}
	if os.Geteuid() != 0 {
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNode+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		os.Exit(1)
	}
}

func setUpNode() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil || lo.Attrs().Flags&unix.IFF_UP != 0 {
		return err // a fuzz worker: its coordinator has set the node up
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	return AddNodeAddresses()
}

// AddNodeAddresses gives the node those of its own addresses that it lacks: after
// IPv6 was switched off and on.
func AddNodeAddresses() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, a := range []netip.Addr{NodeV4, NodeV6} {
		addr, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", a, a.BitLen()))
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(lo, addr); err != nil {
			return err
		}
	}
	return nil
}

// NeedNode skips a test that lacks the node: it needs root.
func NeedNode(tb testing.TB) {
	tb.Helper()
	if os.Getenv(inNode) == "" {
		tb.Skip("needs root, for network namespaces")
	}
}

// Pod is a network namespace. It lives until Close or the test's end.
type Pod struct {
	tb   testing.TB
	file *os.File
}

// NewPod makes an empty network namespace.
func NewPod(tb testing.TB) *Pod {
	tb.Helper()
	NeedNode(tb)
	p := &Pod{tb: tb}
	var err error
	onThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			p.file, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	require.NoError(tb, err)
	tb.Cleanup(p.Close)
	return p
}

// Path is the namespace's path, valid until Close.
func (p *Pod) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.file.Fd()) }

// Close lets go of the namespace: unless others hold it, the kernel deletes it
// and the links in it, some time later.
func (p *Pod) Close() { _ = p.file.Close() }

// Do runs f in the namespace. Sockets that f opens stay in it.
func (p *Pod) Do(f func()) {
	var err error
	onThread(func() {
		if err = unix.Setns(int(p.file.Fd()), unix.CLONE_NEWNET); err == nil {
			f()
		}
	})
	require.NoError(p.tb, err)
}

// onThread runs f on a thread of its own, which ends with f.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// AddrAssignType says where the MAC address of one of the pod's links is from.
func (p *Pod) AddrAssignType(link string) (kind string) {
	var err error
	p.Do(func() { kind, err = addrAssignType(link) })
	require.NoError(p.tb, err)
	return kind
}

// NodeAddrAssignType is AddrAssignType of the node.
func NodeAddrAssignType(tb testing.TB, link string) (kind string) {
	var err error
	onThread(func() { kind, err = addrAssignType(link) })
	require.NoError(tb, err)
	return kind
}

// addrAssignType reads it from a sysfs of the namespace that the thread is in: the
// mounted one is of another. It is for a thread that ends, and its mounts with it.
func addrAssignType(link string) (string, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return "", err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", err
	}
	if err := unix.Mount("nettest", "/sys", "sysfs", unix.MS_RDONLY, ""); err != nil {
		return "", err
	}
	b, err := os.ReadFile("/sys/class/net/" + link + "/addr_assign_type")
	return strings.TrimSpace(string(b)), err
}

// State is all that a namespace's links, addresses and routes are, a line each,
// without what the kernel adds by itself when it notices that a link's other end
// is up, some time later.
func (p *Pod) State() (state []string) {
	p.Do(func() { state = readState(p.tb) })
	return state
}

// NodeState is State of the node.
func NodeState(tb testing.TB) []string { return readState(tb) }

func readState(tb testing.TB) (state []string) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	require.NoError(tb, err)
	defer h.Close()
	links, err := h.LinkList()
	require.NoError(tb, err)
	name := map[int]string{}
	for _, l := range links {
		a := l.Attrs()
		name[a.Index] = a.Name
		state = append(state, fmt.Sprintf("link %s %s alias=%q group=%#x flags=%s", a.Name, l.Type(), a.Alias, a.Group, a.Flags&^net.FlagRunning))
		addrs, err := h.AddrList(l, unix.AF_UNSPEC)
		require.NoError(tb, err)
		for _, addr := range addrs {
			state = append(state, fmt.Sprintf("addr %s scope=%d dev %s", addr.IPNet, addr.Scope, a.Name))
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		// Table 0 with the filter means every table, the local one too.
		routes, err := h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		require.NoError(tb, err)
		for _, r := range routes {
			if r.Table == unix.RT_TABLE_LOCAL && (r.Dst.IP.IsMulticast() || r.Dst.IP.To4() == nil && r.Dst.IP.IsLinkLocalUnicast()) {
				continue
			}
			state = append(state, fmt.Sprintf("route %v table %d via %v dev %s", r.Dst, r.Table, r.Gw, name[r.LinkIndex]))
		}
	}
	sort.Strings(state)
	return state
}

// Lines returns those lines of state that have all of the words.
func Lines(state []string, words ...string) (lines []string) {
line:
	for _, l := range state {
		for _, w := range words {
			if !strings.Contains(l, w) {
				continue line
			}
		}
		lines = append(lines, l)
	}
	return lines
}
