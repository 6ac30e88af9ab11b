// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestGateways: two collectors with the shipped gateway.yaml and the shipped rights
// stand behind a balancer of TCP connections. Whichever of them gets a flow names
// both of its ends, pods of any node, also one that has just come.
func TestGateways(t *testing.T) {
	c := bed.Start(t, nil)
	admin := c.Client(bed.Admin)
	createNamespace(t, admin, namespace)
	near := kubelet{client: admin, node: "node-1"}
	far := kubelet{client: admin, node: "node-2"}
	must(t)(near.run(t.Context(), "web-0", "10.99.1.10"))
	must(t)(far.run(t.Context(), "db-0", "10.99.2.10", "fd00:99:2::10"))
	kubeconfig := c.Kubeconfig(shippedRBAC(t).apply(t, admin), c.Addr())

	b := &flows{}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	gateways := []string{startGateway(t, kubeconfig, server.URL), startGateway(t, kubeconfig, server.URL)}

	want := map[string]string{
		"source.k8s.pod.name": "web-0", "source.k8s.namespace.name": namespace,
		"destination.k8s.pod.name": "db-0", "destination.k8s.namespace.name": namespace,
	}
	// Through the balancer, and each gateway by itself: both know the same.
	targets := append([]string{balance(t, gateways)}, gateways...)
	for i, target := range targets {
		for _, to := range []string{"10.99.2.10", "fd00:99:2::10"} {
			awaitNone(t, func() string { return b.send(target, fmt.Sprint("flow to ", to, " by ", i), "10.99.1.10", to, want) })
		}
	}
	must(t)(far.run(t.Context(), "cache-0", "10.99.2.11"))
	want["destination.k8s.pod.name"] = "cache-0"
	for i, target := range targets {
		awaitNone(t, func() string { return b.send(target, fmt.Sprint("late flow by ", i), "10.99.1.10", "10.99.2.11", want) })
	}

	// A pod on the host's network has the node's address: no pod's name fits it.
	host := must(t)(far.create(t.Context(), "host-0", func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
	must(t)(far.report(t.Context(), host, func(s *corev1.PodStatus) { runs(s, "192.0.2.1") }))
	delete(want, "destination.k8s.pod.name")
	delete(want, "destination.k8s.namespace.name")
	awaitNone(t, func() string { return b.send(targets[0], "host", "10.99.1.10", "192.0.2.1", want) })
}

// startGateway returns the gateway's OTLP address.
func startGateway(t *testing.T, kubeconfig, backend string) string {
	t.Helper()
	address := freeAddress(t)
	// What two on one machine can't share.
	startCollector(t, "gateway.yaml", fmt.Sprintf(`
		receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: %q}}}},
		extensions: {health_check: {endpoint: "127.0.0.1:0"}}`, address),
		"KUBECONFIG="+kubeconfig, "OTLP_ENDPOINT="+backend)
	await(t, "the gateway listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return address
}

// startCollector runs the built binary with a shipped configuration, with what a
// test puts over it, and with $KUBECONFIG in place of a service account.
func startCollector(t *testing.T, config, overlay string, environment ...string) {
	t.Helper()
	logPath := filepath.Join(t.TempDir(), "collector.log")
	log, err := os.Create(logPath)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(testkit.Collector(t, "../.."), "--config", "../../distribution/config/"+config,
		"--config", "yaml:{"+strings.Join(strings.Fields(overlay), " ")+"}",
		"--config", "yaml:{extensions: {podidentity: {sources: {k8s: {auth_type: kubeConfig}}}}, service: {telemetry: {metrics: {level: none}}}}")
	cmd.Env = environment
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
		_ = cmd.Wait()                          // how it ended is in its log
		if said, err := os.ReadFile(logPath); t.Failed() && err == nil {
			t.Logf("the collector's log with %s:\n%s", config, said)
		}
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// balance takes connections and gives them to the backends in turn, as a Service
// of Kubernetes does: it knows nothing of what goes through.
func balance(t *testing.T, backends []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for i := 0; ; i++ {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", backends[i%len(backends)])
				if err != nil {
					return // the client sees the connection end
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, from) }() // ends with the connections
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return l.Addr().String()
}

// flows is a back end that keeps the log records that come.
type flows struct {
	mu  sync.Mutex
	got map[string]map[string]any // attributes by body
}

func (f *flows) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	request := plogotlp.NewExportRequest()
	if err == nil {
		err = request.UnmarshalProto(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.got == nil {
		f.got = map[string]map[string]any{}
	}
	for _, rl := range request.Logs().ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, record := range sl.LogRecords().All() {
				f.got[record.Body().Str()] = record.Attributes().AsRaw()
			}
		}
	}
}

// send sends a flow by a new connection, and says what is missing or wrong in what
// has arrived of it so far.
func (f *flows) send(target, name, from, to string, want map[string]string) string {
	logs := plog.NewLogs()
	record := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.Body().SetStr(name)
	record.Attributes().PutStr("source.address", from)
	record.Attributes().PutStr("destination.address", to)
	body, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	if err != nil {
		return err.Error()
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post("http://"+target+"/v1/logs", "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	_ = response.Body.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	got, there := f.got[name]
	if !there {
		return name + " has not arrived: " + response.Status
	}
	named := map[string]string{}
	for key, value := range got {
		if strings.HasSuffix(key, "k8s.pod.name") || strings.HasSuffix(key, "k8s.namespace.name") {
			named[key] = fmt.Sprint(value)
		}
	}
	if fmt.Sprint(named) != fmt.Sprint(want) { // maps print in the order of their keys
		return fmt.Sprintf("%s: %v, want %v", name, named, want)
	}
	return ""
}
