// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
)

// TestStoppedCollector stops the collector itself with SIGSTOP, as a debugger or
// a starved node would, for at least 20 s and 300 pods: containerd must not care.
// (A CRI event subscriber that does not read blocks RunPodSandbox for the node.)
func TestStoppedCollector(t *testing.T) {
	withEvents := slices.DeleteFunc(runtimes(), func(version string) bool { return version == "1.6" }) // has none
	onRuntimes(t, withEvents, func(t *testing.T, b *bed) {
		const (
			pods    = 300
			workers = 4
			// A pod takes 0.1 to 0.5 s here. A stall lasts until the collector
			// goes on.
			stall = 10 * time.Second
			least = 20 * time.Second
		)
		collector, truth := b.startRetina(t, time.Second)
		stays := b.runAll(t, specs(2, "stay", "stop", "")...)
		b.awaitNames(t, truth, stays)

		require.NoError(t, collector.cmd.Process.Signal(syscall.SIGSTOP))
		resumed := false
		resume := func() {
			if !resumed {
				resumed = true
				require.NoError(t, collector.cmd.Process.Signal(syscall.SIGCONT))
			}
		}
		defer resume() // else nobody could stop it
		stopped := time.Now()
		slowest, err := b.churn(t.Context(), pods, workers, stall)
		require.NoError(t, err)
		// Nothing can be waited for in the rest of the 20 s: the collector sleeps.
		if rest := least - time.Since(stopped); rest > 0 {
			time.Sleep(rest)
		}
		t.Logf("%d pods made and removed in %v, the slowest RunPodSandbox took %v", pods, time.Since(stopped).Round(time.Millisecond), slowest.Round(time.Millisecond))
		fresh := b.runAll(t, specs(1, "fresh", "stop", "")...)
		resume()

		b.awaitNames(t, truth, append(stays, fresh...))
		truth.awaitScrapes(t, time.Now(), 3)
		assert.NoError(t, b.truth.checkAll(truth.points(t)))
	})
}

// churn makes and removes n pods and returns how long the slowest one took to be
// made; a call that takes longer than stall fails.
func (b *bed) churn(ctx context.Context, n, workers int, stall time.Duration) (slowest time.Duration, err error) {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		work = make(chan int)
	)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range workers {
		wg.Go(func() {
			for i := range work {
				call, done := context.WithTimeout(ctx, stall)
				p, err := b.run(call, cri.PodSpec{Name: fmt.Sprintf("churn-%d", i), Namespace: "stop"})
				done()
				if err == nil {
					mu.Lock()
					slowest = max(slowest, p.Running.Sub(p.Asked))
					mu.Unlock()
					call, done = context.WithTimeout(ctx, stall)
					if err = b.stop(call, p); err == nil {
						err = b.runtime.RemovePod(call, p.ID)
					}
					done()
				}
				if err != nil {
					cancel(fmt.Errorf("pod %d of %d: %w", i, n, err))
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		work <- i
	}
	close(work)
	wg.Wait()
	return slowest, context.Cause(ctx)
}
