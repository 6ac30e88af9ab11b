// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Command cribed makes, lists and removes pods on a bed, by hand and for the
// bed's scripts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
)

const usage = `usage: cribed <command> [flags] [arguments]

  up     run pods: -n 10 -par 4 -prefix p -ns demo [-handler ptp|reuse|small] [-hostnet]
  ls     list sandboxes
  events print container events, for -for 10s [-slow 1s between two]
  rm     stop and remove the sandboxes whose ids begin with the arguments
  rmall  stop and remove all sandboxes [-par 4]
  ready  wait until the runtime and its network are ready [-timeout 20s] [-network=false]
  image  write the images of the references to -o file: -busybox /usr/bin/busybox ref...

flags of all but image: -sock, default $CRIBED_DIR/run/containerd.sock
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "cribed %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	dir := os.Getenv("CRIBED_DIR")
	if dir == "" {
		dir = "/tmp/cribed"
	}
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	var (
		socket   = flags.String("sock", dir+"/run/containerd.sock", "CRI socket")
		count    = flags.Int("n", 1, "pods")
		parallel = flags.Int("par", 1, "calls in parallel")
		prefix   = flags.String("prefix", "p", "pod name prefix")
		spec     cri.PodSpec
		duration = flags.Duration("for", 10*time.Second, "how long to follow events")
		slow     = flags.Duration("slow", 0, "pause between two events")
		timeout  = flags.Duration("timeout", 20*time.Second, "how long to wait")
		network  = flags.Bool("network", true, "wait for the network, too")
		output   = flags.String("o", "", "image file to write")
		busybox  = flags.String("busybox", "/usr/bin/busybox", "static busybox")
	)
	flags.StringVar(&spec.Namespace, "ns", "demo", "pod namespace")
	flags.StringVar(&spec.Handler, "handler", "", "runtime handler: the network")
	flags.BoolVar(&spec.HostNetwork, "hostnet", false, "host network")
	_ = flags.Parse(args) // exits on error

	ctx := context.Background()
	runtime, err := cri.Dial(*socket)
	if err != nil {
		return err
	}
	defer runtime.Close()
	switch command {
	case "up":
		return each(*count, *parallel, func(i int) error {
			s := spec
			s.Name = fmt.Sprintf("%s-%d", *prefix, i)
			s.Labels = map[string]string{"app": *prefix}
			p, err := runtime.RunPod(ctx, s)
			if err == nil {
				fmt.Println(p.ID[:13], p.Namespace+"/"+p.Name, p.Addresses, "pid", p.PID, "netns", p.NetNS,
					p.Running.Sub(p.Asked).Round(time.Millisecond))
			}
			return err
		})
	case "ls":
		sandboxes, err := runtime.Sandboxes(ctx)
		for _, s := range sandboxes {
			fmt.Println(s.Id[:13], s.State, s.Metadata.Namespace+"/"+s.Metadata.Name, s.Metadata.Uid, s.RuntimeHandler)
		}
		return err
	case "events":
		ctx, cancel := context.WithTimeout(ctx, *duration)
		defer cancel()
		return runtime.Events(ctx, func(e *runtimeapi.ContainerEventResponse) {
			s := e.PodSandboxStatus
			fmt.Printf("%-24s container=%.13s sandbox=%.13s %s/%s %v ip=%q\n", e.ContainerEventType, e.ContainerId,
				s.GetId(), s.GetMetadata().GetNamespace(), s.GetMetadata().GetName(), s.GetState(), s.GetNetwork().GetIp())
			time.Sleep(*slow)
		})
	case "rm", "rmall":
		sandboxes, err := runtime.Sandboxes(ctx)
		if err != nil {
			return err
		}
		if command == "rm" {
			sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool {
				return !slices.ContainsFunc(flags.Args(), func(id string) bool { return id != "" && strings.HasPrefix(s.Id, id) })
			})
		}
		return each(len(sandboxes), *parallel, func(i int) error { return runtime.RemovePod(ctx, sandboxes[i].Id) })
	case "ready":
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		if !*network {
			return runtime.Ready(ctx, runtimeapi.RuntimeReady)
		}
		return runtime.Ready(ctx)
	case "image":
		return writeImages(*output, *busybox, flags.Args())
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("unknown command")
}

func writeImages(output, busybox string, references []string) error {
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := cri.WriteImages(file, busybox, references...); err != nil {
		return err
	}
	return file.Close()
}

// each calls f for 0..n-1 from parallel goroutines and returns the first error;
// the others are called all the same.
func each(n, parallel int, f func(i int) error) error {
	var (
		work  = make(chan int)
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for range max(parallel, 1) {
		wg.Go(func() {
			for i := range work {
				if err := f(i); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	return first
}
