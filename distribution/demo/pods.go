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
	node           = "rtdemo-node"
	bridge         = "rtdemo0"
	port           = "8080"
)

// demoPods are three pods on a bridge: a server, and two clients that fetch from
// it at different rates. The bridge is not in this machine's network but in a
// namespace that stands for their node: a machine with Docker sends what crosses
// its bridges through its firewall, which drops it.
type demoPods struct {
	dir        string
	procs      []*exec.Cmd
	namespaces []string // that create made
	claims     []claim
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

// trafficLog is what the pods' programs have to say.
func (p *demoPods) trafficLog() string { return filepath.Join(p.dir, "traffic.log") }

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

// namespace makes a network namespace with a loopback.
func (p *demoPods) namespace(ctx context.Context, name string) error {
	if err := ip(ctx, "netns", "add", name); err != nil {
		return err
	}
	p.namespaces = append(p.namespaces, name)
	return ip(ctx, "-n", name, "link", "set", "lo", "up")
}

// create makes the pods; on an error remove still removes what exists by then.
func (p *demoPods) create(ctx context.Context) error {
	if err := p.namespace(ctx, node); err != nil {
		return err
	}
	if err := ip(ctx, "-n", node, "link", "add", bridge, "up", "type", "bridge"); err != nil {
		return err
	}
	list := "pods:\n"
	for i, c := range p.claims {
		ns, veth := "rtdemo-"+c.name, "veth"+strconv.Itoa(i)
		if err := p.namespace(ctx, ns); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"-n", node, "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", ns},
			{"-n", node, "link", "set", veth, "master", bridge, "up"},
			{"-n", ns, "address", "add", c.address + "/24", "dev", "eth0"},
			{"-n", ns, "link", "set", "eth0", "up"},
		} {
			if err := ip(ctx, args...); err != nil {
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
	log, err := os.Create(p.trafficLog())
	if err != nil {
		return err
	}
	defer log.Close() // the programs have their own
	for _, c := range p.claims {
		cmd := exec.Command("ip", "netns", "exec", "rtdemo-"+c.name, self, trafficCommand, net.JoinHostPort(p.claims[0].address, port), strconv.Itoa(c.rate))
		cmd.Stderr = log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("traffic in %s: %w", c.name, err)
		}
		p.procs = append(p.procs, cmd)
	}
	return nil
}

// remove ends the traffic and removes the namespaces that create made, and with
// them the links.
func (p *demoPods) remove() error {
	for _, cmd := range p.procs {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	var errs []error
	for _, name := range p.namespaces {
		errs = append(errs, ip(context.Background(), "netns", "delete", name))
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
