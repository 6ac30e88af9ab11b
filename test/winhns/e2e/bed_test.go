// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// patient is how long to wait for what must happen; this machine may be busy.
const patient = 10 * time.Minute

// TestMain makes the Wine prefix. WINEPREFIX names another one than build/wine.
func TestMain(m *testing.M) {
	setup := exec.Command("../setup.sh")
	setup.Stdout, setup.Stderr = os.Stderr, os.Stderr
	if err := setup.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "test/winhns/e2e: setup.sh:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prefix is the Wine prefix that setup.sh made.
func prefix() string {
	if p := os.Getenv("WINEPREFIX"); p != "" {
		return p
	}
	return "../../../build/wine"
}

func binary(t *testing.T) string {
	t.Helper()
	return testkit.Binary(t, "OTELCOL_RETINA_EXE", "../../../bin/otelcol-retina-amd64.exe", "otelcol-retina.exe")
}

// windows is a path as a Windows program names it under Wine.
func windows(path string) string { return `Z:` + strings.ReplaceAll(path, "/", `\`) }

// process is a Windows program under Wine.
type process struct {
	cmd  *exec.Cmd
	out  string // file
	done chan struct{}
}

// run starts a Windows program that reads the simulation's answers from d.
func run(t *testing.T, d simhns.Dir, name string, args ...string) *process {
	t.Helper()
	p := &process{out: filepath.Join(t.TempDir(), "output"), done: make(chan struct{})}
	f, err := os.Create(p.out)
	require.NoError(t, err)
	defer f.Close()
	p.cmd = exec.Command("../wine.sh", append([]string{name}, args...)...)
	p.cmd.Env = append(os.Environ(), "SIMHNS_DIR="+d.Path)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // Wine's exit code is not the program's
	}()
	t.Cleanup(func() {
		p.end(t)
		assert.NotContains(t, p.output(t), "deprecated", "a ready configuration must not ask for what is going away")
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), tail(p.output(t), 8000))
		}
	})
	return p
}

// end interrupts the program, which is Ctrl-C under Wine, and waits for it.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(patient):
		_ = p.cmd.Process.Kill()
		<-p.done
		t.Errorf("%s did not end when it was interrupted", p.cmd.Args[1])
	}
}

func (p *process) output(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.out)
	require.NoError(t, err)
	return string(b)
}

// waitFor waits until the program has printed something.
func (p *process) waitFor(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.output(t), text) }, patient, 50*time.Millisecond,
		"%s has not printed %q", p.cmd.Args[1], text)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// startRuntime starts the simulated container runtime.
func startRuntime(t *testing.T, d simhns.Dir) {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "cripipe.exe")
	build := exec.Command("go", "build", "-o", exe, "./test/winhns/cripipe")
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	run(t, d, exe, windows(filepath.Join(d.Path, "sandboxes.json"))).waitFor(t, "cripipe: a simulated container runtime on")
}

// collector is a running otelcol-retina.exe.
type collector struct {
	*process
	page string // URL of the Prometheus page
	// points is the file that every point is written to, as OTLP in JSON.
	points string
}

// config is the shipped configuration for Windows with what a test changes: ports,
// paths, a short interval, and a second exporter that keeps start times.
func config(t *testing.T, c *collector, d simhns.Dir, interval time.Duration) string {
	t.Helper()
	shipped, err := os.ReadFile("../../../distribution/windows/config.yaml")
	require.NoError(t, err)
	overlay := fmt.Sprintf(`
receivers:
  hnsstats: {collection_interval: %s, initial_delay: 0s, hns: {vfp: {timeout: 60s}}}
extensions:
  podidentity:
    sources:
      statefile/azure: {path: '%s', format: azure-vnet, poll_interval: 1s}
exporters:
  prometheus: {endpoint: %q, metric_expiration: 10m}
  file: {path: '%s', flush_interval: 100ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {exporters: [prometheus, file]}
`, interval, windows(filepath.Join(d.Path, "azure-vnet.json")), strings.TrimSuffix(strings.TrimPrefix(c.page, "http://"), "/metrics"), windows(c.points))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shipped.yaml"), shipped, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test.yaml"), []byte(overlay), 0o644))
	return dir
}

// newCollector picks the ports and files of a collector.
func newCollector(t *testing.T) *collector {
	t.Helper()
	return &collector{page: "http://" + freePort(t) + "/metrics", points: filepath.Join(t.TempDir(), "points.json")}
}

// startCollector starts the built binary as a console program.
func startCollector(t *testing.T, d simhns.Dir, interval time.Duration) *collector {
	t.Helper()
	c := newCollector(t)
	dir := config(t, c, d, interval)
	c.process = run(t, d, binary(t), "--config", windows(filepath.Join(dir, "shipped.yaml")), "--config", windows(filepath.Join(dir, "test.yaml")))
	c.waitFor(t, "Everything is ready")
	return c
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// wine runs a Windows program to its end.
func wine(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("../wine.sh", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
