// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri gives tests a node with a real containerd: a network and a mount
// namespace that up.sh makes, and a CRI client that makes pods in it. Linux, as
// root.
package cri

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Node is a running bed. Its methods are safe for concurrent use.
type Node struct {
	// Dir holds the bed's state ($CRIBED_DIR), Scripts the bed's scripts.
	Dir, Scripts string
	// Version is containerd's: "1.6", "2.2" or "2.4".
	Version string
}

// Up starts the bed below dir with the scripts of this package's directory. A
// bed that a crashed run left there is removed first.
func Up(ctx context.Context, scripts, dir, version string) (*Node, error) {
	scripts, err := filepath.Abs(scripts)
	if err != nil {
		return nil, err
	}
	n := &Node{Dir: dir, Scripts: scripts, Version: version}
	if err := n.Down(ctx); err != nil {
		return nil, err
	}
	return n, n.script(ctx, "up.sh", version)
}

// Down removes the bed and everything its pods left.
func (n *Node) Down(ctx context.Context) error { return n.script(ctx, "down.sh") }

// KillContainerd ends containerd with SIGKILL and returns when it is gone; the
// pods live on.
func (n *Node) KillContainerd(ctx context.Context) error {
	return n.script(ctx, "containerd.sh", "kill")
}

// StartContainerd starts a killed containerd again and returns when its CRI
// service is ready.
func (n *Node) StartContainerd(ctx context.Context) error {
	return n.script(ctx, "containerd.sh", "start")
}

func (n *Node) script(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(n.Scripts, name), args...)
	cmd.Env = append(os.Environ(), "CRIBED_DIR="+n.Dir)
	// Not CombinedOutput: containerd inherits no pipe of ours, but a script that
	// forgot a redirection would keep Wait hanging.
	out, err := os.CreateTemp("", name)
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said)
	}
	return nil
}

// Socket is the runtime's socket as seen from outside of the node; inside it
// is also in containerd's usual place.
func (n *Node) Socket() string { return filepath.Join(n.Dir, "run/containerd.sock") }

// ContainerdPID returns the pid of the running containerd.
func (n *Node) ContainerdPID() (int, error) {
	b, err := os.ReadFile(filepath.Join(n.Dir, "run/containerd.pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// Command returns a command that runs in the node's namespaces. nsenter
// replaces itself, so the process is the command's own.
func (n *Node) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{
		"--net=" + n.netns(), "--mount=" + filepath.Join(n.Dir, "ns/mnt"), "--wdns=" + n.Dir, "--", name,
	}, args...)...)
}

// DialContext connects from within the node's network namespace; the address
// must be numeric.
func (n *Node) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := InNetNS(n.netns(), func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (n *Node) netns() string { return filepath.Join(n.Dir, "ns/net") }

// InNetNS calls f on a thread of the network namespace at path. Sockets that f
// itself opens belong to it, those of other goroutines don't.
func InNetNS(path string, f func() error) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	result := make(chan error, 1)
	go onThreadOfItsOwn(func() {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter network namespace %s: %w", path, err)
			return
		}
		result <- f()
	})
	return <-result
}

// onThreadOfItsOwn calls f on a thread that ends with the calling goroutine, so
// that no other goroutine meets what f made of it. It is never the main thread,
// which the runtime cannot end and whose namespaces are the process's for
// others: down.sh would take the test for a program in the node.
func onThreadOfItsOwn(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // still locked: the thread ends
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onThreadOfItsOwn(f)
	}()
	<-done
	runtime.UnlockOSThread()
}
