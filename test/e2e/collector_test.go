// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// collector is a running otelcol-retina in the node's namespaces.
type collector struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	http   *http.Client
}

// startCollector starts the collector with the configurations, later ones over
// earlier ones, and returns when its health check says that it is up. Every
// configuration of these tests has health_check on 127.0.0.1:13133.
func (b *bed) startCollector(t *testing.T, configs ...string) *collector {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for i, config := range configs {
		if strings.Contains(config, "\n") {
			path := filepath.Join(dir, fmt.Sprintf("config-%d.yaml", i))
			require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
			config = path
		}
		args = append(args, "--config", config)
	}
	c := &collector{log: filepath.Join(dir, "collector.log"), exited: make(chan struct{}), http: b.httpClient()}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	defer log.Close()
	c.cmd = b.Command(context.WithoutCancel(t.Context()), testkit.Collector(t, "../.."), args...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // how it ended is read from the log
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.stop(t)
		if t.Failed() {
			t.Logf("the collector's log, last lines:\n%s", testkit.LastLines(c.readLog(), 40))
		}
	})
	testkit.Eventually(t, patience, "collector is up", func() error {
		select {
		case <-c.exited:
			t.Fatalf("the collector ended at start:\n%s", c.readLog())
		default:
		}
		_, err := c.get(t, "http://127.0.0.1:13133/")
		return err
	})
	return c
}

// httpClient reaches servers in the node's network namespace. It keeps no
// connections, so that those of the collector are its own.
func (b *bed) httpClient() *http.Client {
	return &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: b.DialContext, DisableKeepAlives: true},
	}
}

func (c *collector) get(t *testing.T, url string) (string, error) { return get(t, c.http, url) }

func get(t *testing.T, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
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

// stop ends the collector as a service manager would, and fails the test when
// it does not end by itself.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	select {
	case <-c.exited:
		return
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has just ended
	select {
	case <-c.exited:
	case <-time.After(patience):
		t.Errorf("the collector did not end within %v of SIGTERM", patience)
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}

func (c *collector) readLog() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (c *collector) pid() int { return c.cmd.Process.Pid }

// goroutines asks the pprof extension, which every configuration that calls this
// has on 127.0.0.1:1777.
func (c *collector) goroutines(t *testing.T) (int, error) {
	profile, err := c.get(t, "http://127.0.0.1:1777/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(profile, "\n") // "goroutine profile: total 57"
	return strconv.Atoi(first[strings.LastIndexByte(first, ' ')+1:])
}

// heap returns the bytes of live objects after a garbage collection.
func (c *collector) heap(t *testing.T) int {
	t.Helper()
	profile, err := c.get(t, "http://127.0.0.1:1777/debug/pprof/heap?gc=1&debug=1")
	require.NoError(t, err)
	_, after, found := strings.Cut(profile, "\n# HeapAlloc = ")
	require.True(t, found)
	number, _, _ := strings.Cut(after, "\n")
	heap, err := strconv.Atoi(number)
	require.NoError(t, err)
	return heap
}

// memory returns a field of /proc/<pid>/status, in bytes.
func (c *collector) memory(t *testing.T, field string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid()))
	require.NoError(t, err)
	for line := range bytes.Lines(b) {
		if value, found := strings.CutPrefix(string(line), field+":"); found {
			kb, err := strconv.Atoi(strings.Fields(value)[0])
			require.NoError(t, err)
			return kb << 10
		}
	}
	t.Fatalf("no %s in /proc/%d/status", field, c.pid())
	return 0
}

// descriptors counts the collector's open files.
func (c *collector) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.pid()))
	require.NoError(t, err)
	return len(entries)
}

// netlinkSockets counts the netlink sockets of the node's network namespace that
// are not the kernel's own (port id 0).
func (c *collector) netlinkSockets(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", c.pid()))
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] != "sk" && f[2] != "0" { // sk Eth Pid …
			n++
		}
	}
	return n
}
