// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command demo runs otelcol-retina's main job where it stands: on the pods of
// this node's container runtime, or, where there are none, on three small pods
// that it makes itself (network namespaces with traffic between them and a state
// file that names them). It prints a table of pods with their bytes, packets and
// drops until it is interrupted, and then removes all that it made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const metricsURL = "http://localhost:8889/metrics"

func main() {
	if len(os.Args) > 1 && os.Args[1] == trafficCommand {
		traffic(os.Args[2:])
		return
	}
	collector := flag.String("collector", "bin/otelcol-retina", "the collector's binary")
	config := flag.String("config", "distribution/config/default.yaml", "the collector's configuration")
	refreshes := flag.Int("refreshes", 0, "end after this many tables; 0: when interrupted")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *collector, *config, *refreshes); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, collector, config string, refreshes int) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("run it as root: the collector needs CAP_NET_ADMIN, the demo makes network namespaces")
	}
	if _, err := exec.LookPath(collector); err != nil {
		return fmt.Errorf("%w (make otelcol-retina builds it)", err)
	}
	dir, err := os.MkdirTemp("", "otelcol-retina-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	// Shorter than the configuration's, so that every table has news.
	args := []string{collector, "--config", config, "--config", "yaml:receivers::hnsstats::collection_interval: 1s"}
	logPath := filepath.Join(dir, "collector.log")
	logs := []string{logPath} // where to look for why a table doesn't change
	if n := runtimePods(ctx); n > 0 {
		fmt.Printf("Pods of this node's container runtime with a network of their own: %d.\n", n)
	} else {
		fmt.Println("No container runtime with networked pods here: making three pods with traffic between them.")
		pods := newPods(dir)
		defer func() { err = errors.Join(err, pods.remove()) }()
		if err := pods.create(ctx); err != nil {
			return err
		}
		args = append(args, "--config", "yaml:extensions::podidentity::sources::statefile/demo: {path: "+pods.stateFile()+", format: list}")
		// The collector stands where the pods' interfaces end, its page here.
		socket := filepath.Join(dir, "page.sock")
		args = append(args, "--config", "yaml:exporters::prometheus: {endpoint: "+socket+", transport: unix}")
		args = append([]string{"ip", "netns", "exec", node}, args...)
		stop, err := servePage(socket)
		if err != nil {
			return err
		}
		defer func() { _ = stop() }()
		logs = append(logs, pods.trafficLog())
	}

	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: Ctrl-C is ours to pass on, after which we wait.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the collector: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
		}
	}()

	fmt.Printf("Metrics page: %s   (Ctrl-C ends the demo)\n", metricsURL)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	still := standstill{since: time.Now()}
	for shown := 0; refreshes == 0 || shown < refreshes; {
		select {
		case <-ctx.Done():
			fmt.Println("\nEnding: removing what the demo made.")
			return nil
		case err := <-exited:
			exited <- err
			out, _ := os.ReadFile(logPath)
			return fmt.Errorf("the collector ended: %w\n%s", err, lastLines(string(out), 15))
		case <-tick.C:
			t, _ := scrape(ctx, metricsURL)
			why := still.why(t, time.Now(), logs)
			if len(t) == 0 && why == "" {
				continue // the page is empty until the first collection
			}
			t.print(os.Stdout, isTerminal(os.Stdout))
			fmt.Print(why)
			shown++
		}
	}
	return nil
}

// little is less in 10 s than pods receive that have any traffic: clients whose
// packets are dropped go on asking.
const little = 4 << 10

// A standstill is since when the pods have received little.
type standstill struct {
	received float64
	since    time.Time
}

// why says, when the pods have received little for a while, so, with the end of
// the logs.
func (s *standstill) why(t table, now time.Time, logs []string) string {
	received := 0.0
	for _, r := range t {
		received += r.rxBytes
	}
	if math.Abs(received-s.received) >= little {
		s.received, s.since = received, now
	}
	still := now.Sub(s.since).Round(time.Second)
	if still < 10*time.Second {
		return ""
	}
	why := fmt.Sprintf("\nAll pods together have received less than %s in %s.\n", size(little), still)
	if len(t) == 0 {
		why = fmt.Sprintf("\nNo pod is on the page after %s.\n", still)
	}
	for _, path := range logs {
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			why += fmt.Sprintf("The end of %s:\n%s\n", filepath.Base(path), lastLines(string(b), 3))
		}
	}
	return why
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// isTerminal says whether f is a terminal, where the table is redrawn in place.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
