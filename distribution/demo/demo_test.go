// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemo runs the built demo with the built collector (`make test-demo` builds
// both), interrupts it as a user would, and looks at what it printed and left.
func TestDemo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes network namespaces: needs root")
	}
	demo := t.TempDir() + "/demo"
	if out, err := exec.Command("go", "build", "-o", demo, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, demo)
	cmd.Dir = "../.." // from the project's root, as `make demo` runs it
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	out.seen = make(chan struct{})
	webRow := regexp.MustCompile(`(?m)^ *demo +web-0 +10\.213\.0\.10 +\S+ [KM]iB +\S+ [KM]iB +[1-9]\d* +[1-9]\d* +\d+`)
	// A later table has newer numbers than the first.
	out.want = func(b []byte) bool {
		rows := webRow.FindAll(b, -1)
		return len(rows) > 0 && !bytes.Equal(rows[0], rows[len(rows)-1])
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case <-out.seen:
	case err := <-exited:
		t.Fatalf("ended early: %v\n%s", err, out.buf.String())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-exited; err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	for _, pod := range []string{"client-0", "client-1"} {
		if !regexp.MustCompile(`(?m)^ *demo +` + pod + ` `).MatchString(out.buf.String()) {
			t.Errorf("no row for %s", pod)
		}
	}
	left, err := exec.Command("sh", "-c", "ip -o link; ip netns").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(left), "rtdemo") {
		t.Errorf("left behind:\n%s", left)
	}
	t.Log(out.buf.String())
}

// output collects what a command prints and closes seen when it has what is wanted.
// exec serialises the writes since Stdout and Stderr are the same.
type output struct {
	buf  bytes.Buffer
	want func([]byte) bool
	seen chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.buf.Write(b)
	if o.want != nil && o.want(o.buf.Bytes()) {
		close(o.seen)
		o.want = nil
	}
	return len(b), nil
}

func TestTableSumsAPodsSeries(t *testing.T) {
	got, err := parse(strings.NewReader(`# TYPE k8s_pod_network_io_bytes_total counter
k8s_pod_network_io_bytes_total{k8s_namespace_name="shop",k8s_pod_ip="10.9.0.5",k8s_pod_name="web-0",network_io_direction="receive"} 2048
k8s_pod_network_io_bytes_total{k8s_namespace_name="shop",k8s_pod_ip="10.9.0.5",k8s_pod_name="web-0",network_io_direction="transmit"} 512
# TYPE k8s_pod_network_packet_dropped_total counter
k8s_pod_network_packet_dropped_total{k8s_namespace_name="shop",k8s_pod_ip="10.9.0.5",k8s_pod_name="web-0",network_io_direction="receive",reason="acl"} 3
k8s_pod_network_packet_dropped_total{k8s_namespace_name="shop",k8s_pod_ip="10.9.0.5",k8s_pod_name="web-0",network_io_direction="receive",reason="endpoint"} 4
`))
	if err != nil {
		t.Fatal(err)
	}
	want := row{namespace: "shop", pod: "web-0", address: "10.9.0.5", rxBytes: 2048, txBytes: 512, drops: 7}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
