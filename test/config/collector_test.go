// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// collector is a running otelcol-retina in a node.
type collector struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

const ready = "../../distribution/config/"

// overlay is what a test changes in a ready configuration that reads this node's
// pods: their names come from the state file, a second passes where a user's
// minute does, and nothing waits for the container runtime, which is away.
func (n *node) overlay() string {
	return fmt.Sprintf("{receivers: {hnsstats: {collection_interval: 1s, initial_delay: 0s}}, extensions: {podidentity: {startup_timeout: 0s, sources: {statefile/test: {path: %s, format: list}}}}}", n.stateFile)
}

// start starts the collector with configurations, later ones over earlier ones: a
// file's name, or YAML that begins with a brace. env is all of its environment.
func (n *node) start(t *testing.T, env map[string]string, configs ...string) *collector {
	t.Helper()
	c := n.launch(t, env, configs...)
	testkit.Eventually(t, patience, "the collector is up", func() error {
		select {
		case <-c.exited:
			t.Fatalf("the collector ended at start:\n%s", c.readLog())
		default:
		}
		if !strings.Contains(c.readLog(), "Everything is ready") {
			return fmt.Errorf("not ready:\n%s", testkit.LastLines(c.readLog(), 5))
		}
		return nil
	})
	return c
}

// launch starts the collector and doesn't wait.
func (n *node) launch(t *testing.T, env map[string]string, configs ...string) *collector {
	t.Helper()
	args := []string{"--net=/run/netns/" + n.name, "--", testkit.Collector(t, "../..")}
	if !n.ownMetrics {
		configs = append(configs, "{service: {telemetry: {metrics: {level: none}}}}")
	}
	for _, config := range configs {
		if strings.HasPrefix(config, "{") {
			config = "yaml:" + config
		}
		args = append(args, "--config", config)
	}
	c := &collector{log: filepath.Join(t.TempDir(), "collector.log"), exited: make(chan struct{})}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	defer log.Close()
	c.cmd = exec.Command("nsenter", args...)
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		c.cmd.Env = append(c.cmd.Env, key+"="+env[key])
	}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // how it ended is read from the log
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.stop(t)
		assert.NotContains(t, c.readLog(), "deprecated", "a ready configuration must not ask for what is going away")
		if t.Failed() {
			t.Logf("the collector's log, last lines:\n%s", testkit.LastLines(c.readLog(), 40))
		}
	})
	return c
}

// stop ends the collector as a service manager would.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-c.exited:
	case <-time.After(patience):
		t.Errorf("the collector did not end within %v of SIGTERM", patience)
		c.kill()
	}
}

// kill ends it without a chance to do anything.
func (c *collector) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

func (c *collector) readLog() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// firstLine waits for a line of the level in the log and returns it.
func (c *collector) firstLine(t *testing.T, level string) string {
	t.Helper()
	var found string
	testkit.Eventually(t, patience, "a line of level "+level, func() error {
		for line := range strings.Lines(c.readLog()) {
			if strings.Contains(line, "\t"+level+"\t") {
				found = line
				return nil
			}
		}
		return fmt.Errorf("none in:\n%s", c.readLog())
	})
	return found
}
