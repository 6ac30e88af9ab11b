// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestDemo runs the built demo with the built collector (`make test-demo` builds
// both), interrupts it as a user would, and looks at what it printed and left. It
// stands on a host as Docker leaves one: bridged packets go to iptables
// (br_netfilter), and what is forwarded is dropped.
func TestDemo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes network namespaces: needs root")
	}
	demo := t.TempDir() + "/demo"
	execute(t, "go", "build", "-o", demo, ".")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host := newHost(t)
	execute(t, "ip", "netns", "exec", host, "iptables", "-P", "FORWARD", "DROP")
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", host, demo)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // leaves nothing behind
	cmd.Dir = "../.."                                                     // from the project's root, as `make demo` runs it
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
	left := execute(t, "ip", "-n", host, "-o", "link") + execute(t, "ip", "netns")
	if strings.Contains(left, "rtdemo") {
		t.Errorf("left behind:\n%s", left)
	}
	t.Log(out.buf.String())
}

// newHost makes a network namespace for the demo to take for its host's.
func newHost(t *testing.T) string {
	t.Helper()
	const name = "demotest-host"
	execute(t, "ip", "netns", "add", name)
	t.Cleanup(func() { execute(t, "ip", "netns", "delete", name) })
	execute(t, "ip", "-n", name, "link", "set", "lo", "up")
	return name
}

func execute(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
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

// A pod on the host's network has no counters: a runtime with such pods only is
// one without pods.
func TestRuntimePodsHaveANetworkOfTheirOwn(t *testing.T) {
	listener, err := net.Listen("unix", t.TempDir()+"/cri.sock")
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]cri.NamespaceMode{"etcd": cri.NamespaceMode_NODE, "kube-proxy": cri.NamespaceMode_NODE}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, fakeRuntime{pods: pods})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	t.Setenv("CONTAINER_RUNTIME_ENDPOINT", "unix://"+listener.Addr().String())

	if n := runtimePods(t.Context()); n != 0 {
		t.Errorf("%d pods of %v, want 0", n, pods)
	}
	pods["web-0"] = cri.NamespaceMode_POD
	if n := runtimePods(t.Context()); n != 1 {
		t.Errorf("%d pods of %v, want 1", n, pods)
	}
}

// fakeRuntime is the part of a container runtime that the demo asks: its ready
// sandboxes, and whose network each is on.
type fakeRuntime struct {
	cri.UnimplementedRuntimeServiceServer
	pods map[string]cri.NamespaceMode
}

func (f fakeRuntime) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r := &cri.ListPodSandboxResponse{}
	for id := range f.pods {
		r.Items = append(r.Items, &cri.PodSandbox{Id: id, State: cri.PodSandboxState_SANDBOX_READY})
	}
	return r, nil
}

func (f fakeRuntime) PodSandboxStatus(_ context.Context, req *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id:    req.PodSandboxId,
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: &cri.NamespaceOption{Network: f.pods[req.PodSandboxId]}}},
	}}, nil
}

func TestStandstillIsExplained(t *testing.T) {
	log := t.TempDir() + "/traffic.log"
	if err := os.WriteFile(log, []byte("dial tcp 10.213.0.10:8080: i/o timeout\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s := standstill{since: start}
	for _, step := range []struct {
		after time.Duration
		table table
		want  string
	}{
		{8 * time.Second, nil, ""},
		{10 * time.Second, nil, "No pod is on the page after 10s"},
		{12 * time.Second, table{{pod: "web-0", rxBytes: 5000}}, ""},
		{20 * time.Second, table{{pod: "web-0", rxBytes: 5400}}, ""},
		{22 * time.Second, table{{pod: "web-0", rxBytes: 5500}}, "received less than 4.0 KiB in 10s"},
		{24 * time.Second, table{{pod: "web-0", rxBytes: 90000}}, ""},
	} {
		got := s.why(step.table, start.Add(step.after), []string{log})
		if !strings.Contains(got, step.want) || strings.Contains(got, "i/o timeout") != (step.want != "") {
			t.Errorf("after %s: %q, want %q with the end of the log", step.after, got, step.want)
		}
	}
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
