// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

const patience = 60 * time.Second

// node is a network and a mount namespace in which the documents' commands run.
type node struct {
	pid int
	bin string // first in the PATH: what stands for programs of a user's machine
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", "--net", "--mount", "sh", "-c",
		"mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && echo ready && exec sleep infinity")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatalf("make a node: %v", err)
	}
	n := &node{pid: cmd.Process.Pid, bin: t.TempDir()}
	// The tests are root already, with or without sudo installed.
	if err := os.WriteFile(filepath.Join(n.bin, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

// command is a command in the node, in the repository's root.
func (n *node) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(n.pid), "--net", "--mount", "--wdns=" + root, "--", name}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+n.bin+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

func (n *node) shell(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := n.command(ctx, "bash", "-euo", "pipefail", "-c", script).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// collect starts a collector, given as the words of a command, and returns when
// it says that it is ready. It ends with the test.
func (n *node) collect(t *testing.T, command ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := n.command(context.WithoutCancel(t.Context()), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	said := func() string {
		b, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(patience):
			t.Errorf("%v did not end", command)
			_ = cmd.Process.Kill()
		}
	})
	testkit.Eventually(t, patience, strings.Join(command, " "), func() error {
		if len(exited) > 0 {
			t.Fatalf("%v ended:\n%s", command, said())
		}
		if !strings.Contains(said(), "Everything is ready") {
			return fmt.Errorf("not ready:\n%s", said())
		}
		return nil
	})
}

// checkList gives a list of pods to a collector and looks at whether it takes it.
func checkList(t *testing.T, b block) {
	t.Helper()
	n := newNode(t)
	n.collect(t, testkit.Collector(t, root), "--config", filepath.Join(root, "distribution/config/default.yaml"), "--config", file(t, "list.yaml", `
extensions:
  podidentity:
    sources: {cri: {endpoint: "unix:///run/nowhere.sock"}, statefile: {path: `+file(t, "pods.yaml", b.text)+`, format: list}}
    page:
`))
	testkit.Eventually(t, patience, "the list is taken", func() error {
		out := n.shell(t, `curl -s localhost:8899/api/status | jq -c '.sources[] | select(.source == "statefile") | [.up, .failure]'`)
		if strings.TrimSpace(out) != `[true,null]` && strings.TrimSpace(out) != `[true,""]` {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}
