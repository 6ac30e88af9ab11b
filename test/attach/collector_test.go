// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// collector is a running otelcol-retina in the node's namespaces.
type collector struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// config is workloadnet alone, without any source of identities, and every data
// point of hnsstats, named by podenrich, in a file.
func (b *bed) config(t *testing.T) string {
	t.Helper()
	path := filepath.Join(b.storage, "config.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
extensions:
  file_storage: {directory: %[1]s}
  podidentity: {}
  workloadnet:
    endpoint: unix://%[2]s
    prefixes: [%[3]s, "%[4]s"]
    identity: podidentity
    storage: file_storage
receivers:
  hnsstats: {collection_interval: %[6]s}
processors:
  podenrich: {identity: podidentity, keep_keys: true}
exporters:
  file: {path: %[5]s, append: true, flush_interval: 20ms}
service:
  extensions: [file_storage, podidentity, workloadnet]
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [hnsstats], processors: [podenrich], exporters: [file]}
`, b.storage, b.socket(), prefixes[0], prefixes[1], b.pointsFile(), b.interval), 0o600))
	return path
}

func (b *bed) pointsFile() string { return filepath.Join(b.storage, "points.json") }

// startCollector starts the collector and waits until its service answers.
func (b *bed) startCollector(t *testing.T) *collector {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(b.storage, "collector.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer log.Close()
	c := &collector{log: log.Name(), exited: make(chan struct{})}
	c.cmd = b.Command(context.WithoutCancel(t.Context()), testkit.Collector(t, "../.."), "--config", b.config(t))
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // how it ended is read from the log
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.end(t, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the collector's log, last lines:\n%s", testkit.LastLines(c.readLog(), 40))
		}
	})
	testkit.Eventually(t, patience, "the service answers", func() error {
		select {
		case <-c.exited:
			t.Fatalf("the collector ended at start:\n%s", testkit.LastLines(c.readLog(), 40))
		default:
		}
		conn, err := net.Dial("unix", b.socket())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return c
}

func (c *collector) readLog() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// end ends the collector, as the signal has it, and waits until it is gone.
func (c *collector) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	_ = c.cmd.Process.Signal(signal) // fails only if it has ended
	select {
	case <-c.exited:
	case <-time.After(patience):
		t.Errorf("the collector did not end within %v of %v", patience, signal)
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}

// point is what a data point's resource says of its pod.
type point struct {
	name, namespace, uid, ip string
	netns                    uint64
	at                       time.Time
}

// pointsReader reads the data points that the collector has written.
type pointsReader struct {
	path   string
	offset int64
	all    []point
}

func (b *bed) points() *pointsReader { return &pointsReader{path: b.pointsFile()} }

// read reads on, to what is in the file now.
func (r *pointsReader) read(t *testing.T) {
	t.Helper()
	file, err := os.Open(r.path)
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	defer file.Close()
	_, err = file.Seek(r.offset, io.SeekStart)
	require.NoError(t, err)
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return // what is left is half written
		}
		require.NoError(t, err)
		r.offset += int64(len(line))
		metrics, err := new(pmetric.JSONUnmarshaler).UnmarshalMetrics(line)
		require.NoError(t, err)
		for _, rm := range metrics.ResourceMetrics().All() {
			r.add(rm)
		}
	}
}

func (r *pointsReader) add(rm pmetric.ResourceMetrics) {
	var p point
	for key, field := range map[string]*string{
		"k8s.pod.name": &p.name, "k8s.namespace.name": &p.namespace, "k8s.pod.uid": &p.uid, "k8s.pod.ip": &p.ip,
	} {
		if v, ok := rm.Resource().Attributes().Get(key); ok {
			*field = v.AsString()
		}
	}
	if v, ok := rm.Resource().Attributes().Get("linux.netns.inode"); ok {
		p.netns = uint64(v.Int())
	}
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			if m.Type() != pmetric.MetricTypeSum {
				continue
			}
			for _, dp := range m.Sum().DataPoints().All() {
				p.at = dp.Timestamp().AsTime()
				r.all = append(r.all, p)
			}
		}
	}
}
