// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"bytes"
	"fmt"
	"io/fs"
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

// patience bounds every wait; no test measures it.
const patience = time.Minute

// machine is a booted systemd on a copy of this machine's root directory, in
// namespaces of its own (machine.sh).
type machine struct {
	pid int
}

// boot starts a machine that ends with the test.
func boot(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces and installs packages in them")
	}
	for _, program := range []string{"/lib/systemd/systemd", "/usr/bin/dpkg"} {
		if _, err := os.Stat(program); err != nil {
			t.Skipf("needs Debian with systemd: %v", err)
		}
	}
	script, err := filepath.Abs("machine.sh")
	require.NoError(t, err)
	group := fmt.Sprintf("otelcol-retina-packages-%d", os.Getpid())
	cmd := exec.Command(script, group)
	console := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // killed below
	}()
	m := &machine{pid: cmd.Process.Pid}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := m.run("journalctl", "--no-pager", "-o", "cat", "-n", "60")
			t.Logf("the journal's end:\n%s", journal)
			status, _ := m.run("systemctl", "--no-pager", "status", "otelcol-retina")
			t.Logf("the unit:\n%s", status)
		}
		_ = cmd.Process.Kill() // and so everything in its PID namespace
		<-exited
		t.Logf("the console: %s", console)
		removeGroup(t, group)
	})
	testkit.Eventually(t, patience, "systemd has booted", func() error {
		out, err := m.run("systemctl", "is-system-running")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	m.must(t, "ip", "link", "set", "lo", "up")
	return m
}

// removeGroup removes the machine's control groups, inner ones first.
func removeGroup(t *testing.T, group string) {
	for _, hierarchy := range []string{"/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(hierarchy, group), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			testkit.Eventually(t, patience, "the control group is empty", func() error { return os.Remove(dirs[i]) })
		}
	}
}

// run runs a command in the machine.
func (m *machine) run(name string, args ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{
		"--target=" + strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd", "--", name,
	}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m *machine) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := m.run(name, args...)
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return out
}

// path is a path of the machine as seen from outside.
func (m *machine) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.pid), "root", name)
}

func (m *machine) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	require.NoError(t, os.WriteFile(m.path(name), []byte(content), 0o644))
}

func (m *machine) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(m.path(name))
	require.NoError(t, err)
	return string(b)
}

// copyIn copies a file of this machine into the other's /root.
func (m *machine) copyIn(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	name := filepath.Join("/var/tmp", filepath.Base(path))
	require.NoError(t, os.WriteFile(m.path(name), b, 0o644))
	return name
}

// addPod makes a network namespace with an address and a veth, as a CNI plugin
// would, and sends some packets into it.
func (m *machine) addPod(t *testing.T, name string, number int) {
	t.Helper()
	host, pod := fmt.Sprintf("veth%d", number), fmt.Sprintf("10.214.0.%d", 10+number)
	m.must(t, "ip", "netns", "add", name)
	m.must(t, "ip", "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", name)
	m.must(t, "ip", "-n", name, "address", "add", pod+"/24", "dev", "eth0")
	m.must(t, "ip", "-n", name, "link", "set", "eth0", "up")
	m.must(t, "ip", "link", "set", host, "up")
	m.must(t, "ip", "route", "add", pod+"/32", "dev", host)
}

// page returns a page of a server in the machine.
func (m *machine) page(url string) (string, error) { return m.run("curl", "--silent", "--fail", url) }

// awaitLine waits until a page has a line with all of the words, and returns it.
func (m *machine) awaitLine(t *testing.T, url string, words ...string) string {
	t.Helper()
	var found string
	testkit.Eventually(t, patience, fmt.Sprint(words), func() error {
		page, err := m.page(url)
		if err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
	lines:
		for line := range strings.Lines(page) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			found = strings.TrimSpace(line)
			return nil
		}
		return fmt.Errorf("not on %s:\n%s", url, page)
	})
	return found
}
