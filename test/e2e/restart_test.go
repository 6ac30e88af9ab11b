// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// pollInterval is how often the cri source lists by default.
const pollInterval = 5 * time.Second

// resources are what a long-running collector must not have more and more of.
type resources struct {
	goroutines, descriptors, netlinkSockets int
}

func (c *collector) resources(t *testing.T) resources {
	t.Helper()
	goroutines, err := c.goroutines(t)
	require.NoError(t, err)
	return resources{goroutines, c.descriptors(t), c.netlinkSockets(t)}
}

// TestRuntimeRestart kills containerd under living pods, several times: names
// stay, pods that are made as soon as it is back are named within a poll, and
// the collector is no larger for it.
func TestRuntimeRestart(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		const interval = 200 * time.Millisecond
		collector, truth := b.startRetina(t, interval)
		pods := b.runAll(t, specs(6, "stay", "restart", "")...)
		b.awaitNames(t, truth, pods)
		truth.awaitScrapes(t, time.Now(), 10)
		before := collector.resources(t)
		t.Logf("before: %+v", before)

		for kill := range 5 {
			killed := time.Now()
			require.NoError(t, b.KillContainerd(t.Context()))
			down := time.Now()
			truth.awaitScrapes(t, down, 5)
			require.NoError(t, b.StartContainerd(t.Context()))
			visitor, err := b.run(t.Context(), cri.PodSpec{Name: fmt.Sprintf("new-%d", kill), Namespace: "restart"})
			require.NoError(t, err)
			b.awaitNames(t, truth, append(pods, visitor))
			for _, points := range truth.since(t, killed) {
				requireNamed(t, points, pods)
			}
			named := firstNamed(truth.since(t, killed), visitor)
			assert.LessOrEqual(t, named.Sub(visitor.Running), pollInterval+2*interval, "%s was named late", visitor.Name)
			require.NoError(t, b.stop(t.Context(), visitor))
			require.NoError(t, b.runtime.RemovePod(t.Context(), visitor.ID))
		}
		require.NoError(t, b.truth.checkAll(truth.points(t)))
		testkit.Eventually(t, patience, "the collector is as it was", func() error {
			after := collector.resources(t)
			if after.goroutines > before.goroutines || after.descriptors > before.descriptors || after.netlinkSockets > before.netlinkSockets {
				return fmt.Errorf("before %+v, after %+v", before, after)
			}
			t.Logf("after: %+v", after)
			return nil
		})
	})
}

// requireNamed demands that a scrape has every pod with its name, and no point
// of these pods' network namespaces without.
func requireNamed(t *testing.T, points []point, pods []*cri.Pod) {
	t.Helper()
	namespaces := map[uint64]string{}
	for _, p := range pods {
		namespaces[p.NetNS] = p.UID
	}
	seen := map[string]bool{}
	for _, p := range points {
		if uid, known := namespaces[p.netns]; known {
			require.Equal(t, uid, p.uid, "%v", p)
		}
		seen[p.uid] = true
	}
	for _, p := range pods {
		require.True(t, seen[p.UID], "scrape of %v lacks %s", points[0].at, p.Name)
	}
}

// firstNamed returns the time of the first point that carries the pod's UID.
func firstNamed(scrapes [][]point, pod *cri.Pod) time.Time {
	for _, points := range scrapes {
		for _, p := range points {
			if p.uid == pod.UID {
				return p.at
			}
		}
	}
	return time.Time{}
}
