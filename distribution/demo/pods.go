// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	trafficCommand = "traffic" // this program again, inside a pod
	bridge         = "rtdemo0"
	port           = "8080"
)

// demoPods are three pods on a bridge of their own: a server, and two clients
// that fetch from it at different rates.
type demoPods struct {
	dir    string
	procs  []*exec.Cmd
	undo   [][]string // commands that remove what create made, newest first
	claims []claim
}

type claim struct {
	name, address string
	rate          int // KiB a second that it fetches; 0: the server
}

func newPods(dir string) *demoPods {
	return &demoPods{dir: dir, claims: []claim{
		{"web-0", "10.213.0.10", 0},
		{"client-0", "10.213.0.11", 256},
		{"client-1", "10.213.0.12", 16},
	}}
}

func (p *demoPods) stateFile() string { return filepath.Join(p.dir, "pods.yaml") }

// ip runs one iproute2 command and, if it succeeds, remembers how to undo it.
func (p *demoPods) ip(ctx context.Context, undo []string, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	if undo != nil {
		p.undo = append([][]string{undo}, p.undo...)
	}
	return nil
}

// create makes the pods; on an error remove still removes what exists by then.
func (p *demoPods) create(ctx context.Context) error {
	if err := p.ip(ctx, []string{"link", "delete", bridge}, "link", "add", bridge, "type", "bridge"); err != nil {
		return err
	}
	if err := p.ip(ctx, nil, "link", "set", bridge, "up"); err != nil {
		return err
	}
	list := "pods:\n"
	for i, c := range p.claims {
		ns, host := "rtdemo-"+c.name, "rtdemo-veth"+strconv.Itoa(i)
		for _, step := range []struct{ undo, do []string }{
			{[]string{"netns", "delete", ns}, []string{"netns", "add", ns}},
			// The veth would go with its namespace, but some time after "ip netns
			// delete" has returned.
			{[]string{"link", "delete", host}, []string{"link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", ns}},
			{nil, []string{"link", "set", host, "master", bridge, "up"}},
			{nil, []string{"-n", ns, "link", "set", "lo", "up"}},
			{nil, []string{"-n", ns, "address", "add", c.address + "/24", "dev", "eth0"}},
			{nil, []string{"-n", ns, "link", "set", "eth0", "up"}},
		} {
			if err := p.ip(ctx, step.undo, step.do...); err != nil {
				return err
			}
		}
		list += fmt.Sprintf("  - {name: %s, namespace: demo, addresses: [%s], netns: /run/netns/%s}\n", c.name, c.address, ns)
	}
	if err := os.WriteFile(p.stateFile(), []byte(list), 0o644); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, c := range p.claims {
		cmd := exec.Command("ip", "netns", "exec", "rtdemo-"+c.name, self, trafficCommand, net.JoinHostPort(p.claims[0].address, port), strconv.Itoa(c.rate))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("traffic in %s: %w", c.name, err)
		}
		p.procs = append(p.procs, cmd)
	}
	return nil
}

// remove ends the traffic and removes every link and namespace that create made.
func (p *demoPods) remove() error {
	for _, cmd := range p.procs {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	var errs []error
	for _, args := range p.undo {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("ip %v: %w: %s", args, err, out))
		}
	}
	return errors.Join(errs...)
}

// traffic is what runs inside a pod: a server that sends as much as it is asked
// for, or a client that asks for rate KiB every second.
func traffic(args []string) {
	if len(args) != 2 {
		os.Exit(2)
	}
	rate, _ := strconv.Atoi(args[1])
	if rate == 0 {
		serve(args[0])
		return
	}
	for {
		if err := fetch(args[0], rate<<10); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(time.Second)
	}
}

func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var want int
			if _, err := fmt.Fscanln(c, &want); err == nil && want <= 1<<20 {
				_, _ = c.Write(make([]byte, want))
			}
		}()
	}
}

func fetch(address string, bytes int) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintln(c, bytes); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}
