// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
)

// byAddress is a second way to each name: what only has an address, as another
// receiver's data does.
const byAddress = `
processors:
  resource/address:
    attributes: [{key: linux.netns.inode, action: delete}]
  podenrich/address: {identity: podidentity}
exporters:
  file/address: {path: %s, flush_interval: 20ms}
extensions:
  podidentity: {page: {endpoint: "127.0.0.1:8899"}}
service:
  pipelines:
    metrics/address:
      receivers: [hnsstats]
      processors: [resource/address, podenrich/address]
      exporters: [file/address]
`

// TestSmallSubnet makes and removes 500 pods (150 on the old runtime, to save time) on a network of 61 addresses of each
// family, so that each address comes round again within seconds, and looks at
// the name of every point: by network namespace and by address alone.
func TestSmallSubnet(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, b *bed) {
		const (
			workers = 4
			alive   = 5 // of each worker
		)
		pods := 500
		if strings.HasSuffix(t.Name(), "1.6") {
			pods = 150
		}
		addresses := &sink{path: filepath.Join(t.TempDir(), "address.json")}
		_, truth := b.startRetina(t, 250*time.Millisecond, fmt.Sprintf(byAddress, addresses.path))
		var (
			mu   sync.Mutex
			took []time.Duration
			wg   sync.WaitGroup
			work = make(chan int)
		)
		ctx, fail := context.WithCancelCause(t.Context())
		defer fail(nil)
		began := time.Now()
		for range workers {
			wg.Go(func() {
				var mine []*cri.Pod
				for i := range work {
					p, err := b.run(ctx, cri.PodSpec{Name: fmt.Sprintf("small-%d", i), Namespace: "small", Handler: "small"})
					if err != nil {
						fail(err)
						return
					}
					mine = append(mine, p)
					// One in four is gone before anybody may know its name.
					if i%4 > 0 {
						if err := b.awaitIdentity(ctx, t, p); err != nil {
							fail(err)
							return
						}
						mu.Lock()
						took = append(took, time.Since(p.Running))
						mu.Unlock()
					}
					if len(mine) <= alive && i%4 > 0 {
						continue
					}
					oldest := mine[0]
					if i%4 == 0 {
						oldest = p
					}
					mine = slices.DeleteFunc(mine, func(q *cri.Pod) bool { return q == oldest })
					if err := b.stop(ctx, oldest); err != nil {
						fail(err)
						return
					}
					if err := b.runtime.RemovePod(ctx, oldest.ID); err != nil {
						fail(err)
						return
					}
				}
			})
		}
	pods:
		for i := range pods {
			select {
			case work <- i:
			case <-ctx.Done():
				break pods
			}
		}
		close(work)
		wg.Wait()
		require.NoError(t, context.Cause(ctx))
		churned := time.Since(began)
		truth.awaitScrapes(t, time.Now(), 4)
		addresses.awaitScrapes(t, time.Now(), 4)

		uses := map[netip.Addr]int{}
		for _, l := range b.truth.lives {
			require.NotEmpty(t, l.pod.Addresses)
			uses[l.pod.Addresses[0]]++
		}
		require.LessOrEqual(t, len(uses), 61)
		for by, s := range map[string]*sink{"network namespace": truth, "address": addresses} {
			points := s.points(t)
			require.NoError(t, b.truth.checkAll(points), "by %s", by)
			named := 0
			for _, p := range points {
				if p.pod != "" {
					named++
				}
			}
			require.Greater(t, named, pods, "by %s", by)
			t.Logf("by %s: %d points, %d named, none wrong", by, len(points), named)
		}
		slices.Sort(took)
		median := took[len(took)/2]
		t.Logf("%d pods on %d addresses in %v; from RunPodSandbox's answer to the name: median %v, slowest %v",
			pods, len(uses), churned.Round(time.Second), median.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
		require.Less(t, median, time.Second)
	})
}

// TestEventsBringNames makes pods one after another, each as soon as the last one
// has its name: right after a poll, if a poll brought it. Nothing looks for them
// meanwhile, which would have the runtime asked, too. Containerd 1.6 has no events.
func TestEventsBringNames(t *testing.T) {
	withEvents := slices.DeleteFunc(runtimes(), func(version string) bool { return version == "1.6" })
	onRuntimes(t, withEvents, func(t *testing.T, b *bed) {
		const poll = 5 * time.Second // podidentity's default
		b.startRetina(t, time.Hour, "yaml:extensions::podidentity::page::endpoint: 127.0.0.1:8899")
		var took []time.Duration
		for i := range 9 {
			p, err := b.run(t.Context(), cri.PodSpec{Name: fmt.Sprintf("next-%d", i), Namespace: "poll", Handler: "small"})
			require.NoError(t, err)
			require.NoError(t, b.awaitIdentity(t.Context(), t, p))
			took = append(took, time.Since(p.Running))
		}
		slices.Sort(took)
		median := took[len(took)/2]
		t.Logf("from RunPodSandbox's answer to the name: median %v", median.Round(time.Millisecond))
		require.Less(t, median, poll/4)
	})
}

// awaitIdentity waits until the identity page says that the pod holds its address.
func (b *bed) awaitIdentity(ctx context.Context, t *testing.T, p *cri.Pod) error {
	client := b.httpClient()
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		body, err := get(t, client, "http://127.0.0.1:8899/api/identities?ip="+p.Addresses[0].String())
		if err != nil {
			return err
		}
		var answer struct {
			Outcome string
			Pods    []struct{ UID string }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return fmt.Errorf("%w in %q", err, body)
		}
		if answer.Outcome == "found" && len(answer.Pods) == 1 && answer.Pods[0].UID == p.UID {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s/%s is not the holder of %v: %s", p.Namespace, p.Name, p.Addresses[0], body)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
