// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
)

// patience bounds every wait of these tests; it is long because machines of
// continuous integration are slow, and no test measures it.
const patience = 60 * time.Second

// bed is a node with containerd, and the log of the pods that the test made on it.
type bed struct {
	*cri.Node
	runtime *cri.Runtime
	truth   truth
}

// runtimes are the containerd versions to test on.
func runtimes() []string {
	if versions := strings.Fields(os.Getenv("E2E_CONTAINERD")); len(versions) > 0 {
		return versions
	}
	return []string{"1.6", "2.2"}
}

// onEachRuntime runs f on a fresh bed for each containerd version.
func onEachRuntime(t *testing.T, f func(t *testing.T, b *bed)) { onRuntimes(t, runtimes(), f) }

func onRuntimes(t *testing.T, versions []string, f func(t *testing.T, b *bed)) {
	for _, version := range versions {
		t.Run("containerd-"+version, func(t *testing.T) { f(t, newBed(t, version)) })
	}
}

func newBed(t *testing.T, version string) *bed {
	t.Helper()
	needRoot(t)
	dir := os.Getenv("CRIBED_DIR")
	if dir == "" {
		dir = "/tmp/otelcol-retina-e2e"
	}
	ctx := context.WithoutCancel(t.Context())
	node, err := cri.Up(ctx, "../cri", dir, version)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := node.Down(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("containerd's log: %s", filepath.Join(dir, "logs/containerd.log"))
		}
	})
	runtime, err := cri.Dial(node.Socket())
	require.NoError(t, err)
	t.Cleanup(func() { _ = runtime.Close() })
	return &bed{Node: node, runtime: runtime}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces and runs containerd")
	}
}

// run makes a pod and writes it into the log of truth.
func (b *bed) run(ctx context.Context, spec cri.PodSpec) (*cri.Pod, error) {
	p, err := b.runtime.RunPod(ctx, spec)
	if err == nil {
		b.truth.began(p)
	}
	return p, err
}

// runAll makes pods, four at a time, and returns them in the order of specs.
func (b *bed) runAll(t *testing.T, specs ...cri.PodSpec) []*cri.Pod {
	t.Helper()
	pods := make([]*cri.Pod, len(specs))
	errs := make([]error, len(specs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, spec := range specs {
		slots <- struct{}{}
		wg.Go(func() {
			pods[i], errs[i] = b.run(t.Context(), spec)
			<-slots
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return pods
}

// stop stops a pod and writes the time at which its network was gone for sure
// into the log of truth.
func (b *bed) stop(ctx context.Context, p *cri.Pod) error {
	b.truth.stopping(p)
	err := b.runtime.StopPod(ctx, p.ID)
	b.truth.ended(p)
	return err
}

// specs returns n pods "prefix-0" … of a namespace.
func specs(n int, prefix, namespace, handler string) []cri.PodSpec {
	s := make([]cri.PodSpec, n)
	for i := range s {
		s[i] = cri.PodSpec{Name: fmt.Sprintf("%s-%d", prefix, i), Namespace: namespace, Handler: handler}
	}
	return s
}
