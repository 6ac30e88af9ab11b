// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience is long: the machine may have other work.
const patience = 60 * time.Second

// node is a network namespace that stands for a node, with three pods: web-0 serves,
// client-0 and client-1 fetch from it. The state file names them.
type node struct {
	name      string
	stateFile string
	// ownMetrics lets a collector serve its own metrics, which only one in a node can.
	ownMetrics bool
}

type pod struct{ name, address string }

var pods = []pod{{"web-0", "10.214.0.10"}, {"client-0", "10.214.0.11"}, {"client-1", "10.214.0.12"}}

const (
	namespace = "shop"
	// chunk is what a client fetches every time.
	chunk = 50_000
)

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes network namespaces: needs root")
	}
	n := &node{name: fmt.Sprintf("rtcfg%d", os.Getpid()), stateFile: filepath.Join(t.TempDir(), "pods.yaml")}
	n.add(t, n.name)
	ip(t, "-n", n.name, "link", "set", "lo", "up")
	ip(t, "-n", n.name, "link", "add", "br0", "type", "bridge")
	ip(t, "-n", n.name, "link", "set", "br0", "up")
	list := "pods:\n"
	for i, p := range pods {
		ns := n.netns(p)
		n.add(t, ns)
		host := fmt.Sprint("veth", i)
		ip(t, "-n", n.name, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", ns)
		ip(t, "-n", n.name, "link", "set", host, "master", "br0", "up")
		ip(t, "-n", ns, "link", "set", "lo", "up")
		ip(t, "-n", ns, "address", "add", p.address+"/24", "dev", "eth0")
		ip(t, "-n", ns, "link", "set", "eth0", "up")
		list += fmt.Sprintf("  - {name: %s, namespace: %s, addresses: [%s], netns: /run/netns/%s}\n", p.name, namespace, p.address, ns)
	}
	require.NoError(t, os.WriteFile(n.stateFile, []byte(list), 0o644))

	web := listenIn(t, n.netns(pods[0]), pods[0].address+":80")
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(make([]byte, chunk)) // a client that has gone
			_ = c.Close()
		}
	}()
	return n
}

// writeState replaces the state file as a CNI plugin does: at once.
func (n *node) writeState(t *testing.T, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(n.stateFile+".new", []byte(content), 0o644))
	require.NoError(t, os.Rename(n.stateFile+".new", n.stateFile))
}

func (n *node) netns(p pod) string { return n.name + "-" + p.name }

func (n *node) add(t *testing.T, ns string) {
	t.Helper()
	ip(t, "netns", "add", ns)
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", ns).CombinedOutput(); err != nil {
			t.Errorf("ip netns delete %s: %v\n%s", ns, err, out)
		}
	})
}

// fetch lets the two clients fetch once each.
func (n *node) fetch(t *testing.T) {
	t.Helper()
	for _, p := range pods[1:] {
		require.NoError(t, inNetNS(n.netns(p), func() error {
			c, err := net.DialTimeout("tcp", pods[0].address+":80", 5*time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			got, err := io.Copy(io.Discard, c)
			if err == nil && got != chunk {
				err = fmt.Errorf("fetched %d bytes", got)
			}
			return err
		}))
	}
}

// sent returns the bytes that the kernel has counted out of the pod's interface.
func (n *node) sent(t *testing.T, p pod) float64 {
	t.Helper()
	var links []struct {
		Stats struct{ TX struct{ Bytes float64 } } `json:"stats64"`
	}
	require.NoError(t, json.Unmarshal([]byte(ip(t, "-n", n.netns(p), "-j", "-s", "link", "show", "eth0")), &links))
	return links[0].Stats.TX.Bytes
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
	return string(out)
}

// inNetNS calls f on a thread of a named network namespace. Sockets that f itself
// opens belong to it.
func inNetNS(name string, f func() error) error {
	ns, err := os.Open(filepath.Join("/run/netns", name))
	if err != nil {
		return err
	}
	defer ns.Close()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter network namespace %s: %w", name, err)
			return
		}
		result <- f()
	}()
	return <-result
}

func listenIn(t *testing.T, ns, address string) net.Listener {
	t.Helper()
	var l net.Listener
	require.NoError(t, inNetNS(ns, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}))
	t.Cleanup(func() { _ = l.Close() }) // some are closed by then
	return l
}

// client reaches servers in the node; the address must be numeric.
func (n *node) client() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = inNetNS(n.name, func() (err error) {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		},
	}}
}

func (n *node) get(url string) (string, error) {
	response, err := n.client().Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}
