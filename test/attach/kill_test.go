// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// TestKilled kills the collector with SIGKILL in the middle of 50 attaches, and
// starts it again: the pods that live keep their traffic throughout, no address is
// given twice, and no link is left that no pod has.
func TestKilled(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		c := b.startCollector(t)
		b.ready(t)
		stays := b.run(t, 2, 2, "stay")
		stopTraffic := b.traffic(t, stays[0], stays[1])

		for round := range 2 {
			pods := make([]*cri.Pod, 50)
			var done atomic.Int32
			third := make(chan struct{})
			created := make(chan struct{})
			go func() {
				defer close(created)
				each(len(pods), 16, func(i int) {
					pods[i], _ = b.runtime.RunPod(t.Context(), cri.PodSpec{Name: fmt.Sprintf("round-%d-%d", round, i), Namespace: "attach"})
					if done.Add(1) == int32(len(pods)/3) {
						close(third)
					}
				})
			}()
			<-third
			c.end(t, syscall.SIGKILL)
			c = b.startCollector(t)
			<-created

			living := append([]*cri.Pod{}, stays...)
			failed := 0
			for _, p := range pods {
				if p == nil {
					failed++
				} else {
					living = append(living, p)
				}
			}
			t.Logf("round %d: %d of %d pods failed while the collector was away", round, failed, len(pods))
			b.ready(t)
			living = append(living, b.run(t, 5, 5, fmt.Sprintf("after-%d", round))...)
			b.agree(t, living)
			b.removeAllBut(t, stays...)
			b.agree(t, stays)
		}
		stopTraffic()
		b.remove(t, stays)
	})
}

// TestContainerdKilled kills containerd in the middle of attaches, and starts it
// again: its pods are as they were, and what it had begun can be removed.
func TestContainerdKilled(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		b.startCollector(t)
		b.ready(t)
		stays := b.run(t, 2, 2, "stay")
		stopTraffic := b.traffic(t, stays[0], stays[1])

		attached := make(chan struct{}, 1)
		changes, err := b.service.Watch(t.Context(), &pb.WatchRequest{})
		require.NoError(t, err)
		go func() {
			for n := 0; ; n++ {
				if _, err := changes.Recv(); err != nil {
					return // the test ends
				}
				if n == 5 { // two that stay, "synced", three of those that follow
					attached <- struct{}{}
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(20, 20, func(i int) {
				_, _ = b.runtime.RunPod(ctx, cri.PodSpec{Name: fmt.Sprint("cut-", i), Namespace: "attach"})
			})
		}()
		<-attached
		require.NoError(t, b.KillContainerd(t.Context()))
		cancel()
		<-done
		require.NoError(t, b.StartContainerd(t.Context()))
		b.ready(t)
		for _, p := range stays {
			addrs, err := b.runtime.Addresses(t.Context(), p.ID)
			require.NoError(t, err)
			require.Equal(t, p.Addresses, addrs)
		}
		b.removeAllBut(t, stays...)
		b.agree(t, append(b.run(t, 2, 2, "after"), stays...))
		stopTraffic()
		b.removeAllBut(t)
		b.agree(t, nil)
	})
}

// agree asserts that the service, the kernel and containerd have the same pods,
// and that no address is any two's.
func (b *bed) agree(t *testing.T, living []*cri.Pod) {
	t.Helper()
	seen := map[netip.Addr]string{}
	for _, p := range living {
		require.Len(t, p.Addresses, 2, p.Name)
		for _, addr := range p.Addresses {
			require.Empty(t, seen[addr], "%s is %s's, too", addr, p.Name)
			seen[addr] = p.Name
		}
	}
	// What failed half-way leaves with its network namespace, in the kernel's time.
	testkit.Eventually(t, patience, "only what lives is attached", func() error {
		list := b.list(t)
		for _, p := range living {
			if a := list[p.ID]; a == nil || fmt.Sprint(addresses(t, a)) != fmt.Sprint(p.Addresses) {
				return fmt.Errorf("%s has %v, the service says %v", p.Name, p.Addresses, a)
			}
		}
		if links := b.links(t); len(list) != len(living) || len(links) != len(living) {
			return fmt.Errorf("%d pods, %d attachments, %d links", len(living), len(list), len(links))
		}
		return nil
	})
}

// traffic keeps a connection of each family between two pods busy until stop,
// which fails the test if any exchange on it failed or took five seconds. A busy
// machine rarely takes one; TCP takes as long if three went without a path.
func (b *bed) traffic(t *testing.T, from, to *cri.Pod) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	failures := make(chan error, 2)
	exchanges := make([]int, 2)
	for family := range 2 {
		client, server, err := dial(in(from), in(to), to.Addresses[family])
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = client.Close(), server.Close() })
		go func() { _, _ = io.Copy(server, server) }() // the echo
		go func() {
			buf := make([]byte, 1)
			for ctx.Err() == nil {
				_ = client.SetDeadline(time.Now().Add(5 * time.Second))
				if _, err := client.Write(buf); err != nil {
					failures <- fmt.Errorf("IPv%d, exchange %d: %w", 4+2*family, exchanges[family], err)
					return
				}
				if _, err := io.ReadFull(client, buf); err != nil {
					failures <- fmt.Errorf("IPv%d, exchange %d: %w", 4+2*family, exchanges[family], err)
					return
				}
				exchanges[family]++
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
			failures <- nil
		}()
	}
	return func() {
		t.Helper()
		cancel()
		for range 2 {
			assert.NoError(t, <-failures)
		}
		t.Logf("exchanges without a failure: %d over IPv4, %d over IPv6", exchanges[0], exchanges[1])
	}
}
