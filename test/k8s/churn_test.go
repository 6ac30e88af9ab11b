// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
)

const (
	churnPods    = 10_000
	churnRate    = 200 // replaced pods a second, where the machine can
	churnTotal   = 60 * churnRate
	churnWorkers = 16
	cutEvery     = 5 * time.Second
)

// TestChurn replaces pods at a rate for a minute, each heir on its predecessor's
// addresses, while the source's connection is cut again and again and the API
// server dies once. Afterwards the extension knows exactly what the API server
// knows, has never taken one pod for another, and holds no more than before.
func TestChurn(t *testing.T) {
	cluster := bed.Start(t, nil)
	httpClient, err := rest.HTTPClientFor(cluster.Config(bed.Admin))
	require.NoError(t, err)
	client, err := kubernetes.NewForConfigAndClient(cluster.Config(bed.Admin), httpClient)
	require.NoError(t, err)
	createNamespace(t, client, namespace)
	c := &churn{kubelet: kubelet{client, "node-1"}, holders: make([]holder, churnPods)}
	c.outcomes, c.later = map[string]int{}, make(chan sighting, 10*churnRate)
	c.fill(t)

	proxy := bed.NewProxy(t, cluster.Addr())
	i := startIdentityWithGrace(t, cluster.Kubeconfig(bed.Admin, proxy.Addr()), "5s", nil)
	i.awaitSynced(t)
	c.identity = i
	require.Empty(t, c.differs(t))
	before := measure(httpClient)

	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(c.audit)
	cuts := 0
	others.Go(func() {
		tick := time.NewTicker(cutEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				cuts += proxy.Cut()
			case <-stop:
				return
			}
		}
	})
	start := time.Now()
	c.run(t, 0, churnTotal/2)
	cluster.KillAPIServer()
	cluster.StartAPIServer()
	c.run(t, churnTotal/2, churnTotal)
	took := time.Since(start)
	close(stop)
	close(c.later)
	others.Wait()

	start = time.Now()
	awaitNone(t, func() string { return c.differs(t) })
	t.Logf("%d pods replaced in %v: %.0f a second; %d connections cut; an address was taken over within %v (median), %v (90%%); the truth after %v",
		churnTotal, took.Round(time.Second), churnTotal/took.Seconds(), cuts, c.gap(50), c.gap(90), time.Since(start).Round(time.Millisecond))
	t.Logf("look-ups: %v, %d wrong", c.outcomes, len(c.wrong))
	require.Empty(t, c.wrong)
	require.Greater(t, c.outcomes["at once: right"], churnTotal)
	require.Greater(t, c.outcomes["later: right"], churnTotal)
	require.NotZero(t, cuts)

	c.forget()
	awaitNone(t, func() string {
		after := measure(httpClient)
		if after.exceeds(before) {
			return fmt.Sprintf("before the churn %v, now %v", before, after)
		}
		t.Logf("before %v, after %v", before, after)
		return ""
	})
	for _, w := range i.warnings() {
		t.Log(w)
	}
	assert.LessOrEqual(t, len(i.warnings()), 3, "what broke is said once for each time it broke")
}

// footprint is what the test's process holds, the extension above all.
type footprint struct {
	heap       uint64
	goroutines int
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MiB of heap and %d goroutines", float64(f.heap)/(1<<20), f.goroutines)
}

func measure(client *http.Client) footprint {
	client.CloseIdleConnections()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{m.HeapAlloc, runtime.NumGoroutine()}
}

// exceeds allows for the room that maps keep: a tenth.
func (f footprint) exceeds(g footprint) bool {
	return f.heap > g.heap+g.heap/10 || f.goroutines > g.goroutines
}

// A holder is the pod that has a pair of addresses.
type holder struct {
	name, uid string
	turn      int
}

// A sighting is an address at a time when its holder was beyond doubt.
type sighting struct {
	addr netip.Addr
	at   time.Time
	uid  string
}

type churn struct {
	kubelet
	holders []holder // by the number of the addresses

	identity *identity
	later    chan sighting

	mu       sync.Mutex
	uids     []string
	outcomes map[string]int
	wrong    []string
	gaps     []time.Duration
}

// each runs f for the numbers from from to to in several workers, at most at the
// rate given, 0 for any.
func (c *churn) each(t *testing.T, from, to, rate int, f func(ctx context.Context, n int) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	work := make(chan int)
	var wg sync.WaitGroup
	for range churnWorkers {
		wg.Go(func() {
			for n := range work {
				if err := f(ctx, n); err != nil {
					cancel(fmt.Errorf("number %d: %w", n, err))
				}
			}
		})
	}
	start := time.Now()
	for n := from; n < to && ctx.Err() == nil; n++ {
		if rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(n-from) * time.Second / time.Duration(rate))))
		}
		work <- n
	}
	close(work)
	wg.Wait()
	require.NoError(t, context.Cause(ctx))
}

// fill creates the first holder of every address.
func (c *churn) fill(t *testing.T) {
	t.Helper()
	c.each(t, 0, len(c.holders), 0, func(ctx context.Context, n int) error {
		return c.take(ctx, n, fmt.Sprintf("pod-%05d", n))
	})
}

// take creates a pod with the addresses of number n.
func (c *churn) take(ctx context.Context, n int, name string) error {
	v4, v6 := addresses(n)
	pod, err := c.kubelet.run(ctx, name, v4, v6)
	if err != nil {
		return err
	}
	h := &c.holders[n]
	*h = holder{name: name, uid: string(pod.UID), turn: h.turn + 1}
	c.mu.Lock()
	c.uids = append(c.uids, h.uid)
	c.mu.Unlock()
	return nil
}

// stop reports that the containers of a number's pod have finished.
func (c *churn) stop(ctx context.Context, number int, phase corev1.PodPhase) error {
	v4, v6 := addresses(number)
	old := c.holders[number]
	_, err := c.report(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: old.name, UID: types.UID(old.uid)}},
		func(s *corev1.PodStatus) { runs(s, v4, v6); stopped(s); s.Phase = phase })
	return err
}

func (c *churn) run(t *testing.T, from, to int) {
	t.Helper()
	c.each(t, from, to, churnRate, func(ctx context.Context, n int) error { return c.replace(ctx, n) })
}

// replace ends the holder of an address in one of the ways in which pods end,
// and gives the address to another pod at once.
func (c *churn) replace(ctx context.Context, n int) error {
	number := n % len(c.holders)
	old := c.holders[number]
	c.sight(number, old.uid)
	heir := fmt.Sprintf("pod-%05d-%d", number, old.turn)
	var freed time.Time
	after := func() error { return nil }
	switch n % 4 {
	case 0: // removed by force; the heir has the same name
		heir = old.name
		freed = time.Now()
		if err := c.remove(ctx, old.name); err != nil {
			return err
		}
	case 1: // removed by force
		freed = time.Now()
		if err := c.remove(ctx, old.name); err != nil {
			return err
		}
	case 2: // completes, and stays around after the heir has come
		freed = time.Now()
		if err := c.stop(ctx, number, corev1.PodSucceeded); err != nil {
			return err
		}
		after = func() error { return c.remove(ctx, old.name) }
	case 3: // is deleted; its containers stop; its object goes last
		if err := c.terminate(ctx, old.name); err != nil {
			return err
		}
		freed = time.Now()
		if err := c.stop(ctx, number, corev1.PodRunning); err != nil {
			return err
		}
		after = func() error { return c.remove(ctx, old.name) }
	}
	if err := c.take(ctx, number, heir); err != nil {
		return err
	}
	c.mu.Lock()
	c.gaps = append(c.gaps, time.Since(freed))
	c.mu.Unlock()
	return after()
}

// sight asks whom the addresses of a number belong to, which is beyond doubt:
// their pod has lived for a while and lives still. The auditor asks again, for
// this moment, when the pod has been replaced.
func (c *churn) sight(number int, uid string) {
	v4, v6 := addresses(number)
	now := time.Now()
	for _, a := range []string{v4, v6} {
		s := sighting{netip.MustParseAddr(a), now, uid}
		c.check("at once", s)
		c.later <- s
	}
}

// check counts how a look-up ends.
func (c *churn) check(when string, s sighting) {
	got := describe(c.identity.Resolve(podidentity.Query{Address: s.addr, At: s.at}))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch got {
	case s.uid:
		c.outcomes[when+": right"]++
	case "unknown", "ended", "ambiguous", "mismatch":
		c.outcomes[when+": "+got]++
	default:
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %v at %v belonged to %s, not to %s", when, s.addr, s.at, s.uid, got))
	}
}

// audit checks every sighting again two seconds later, within the grace period.
func (c *churn) audit() {
	for s := range c.later {
		time.Sleep(time.Until(s.at.Add(2 * time.Second)))
		c.check("later", s)
	}
}

// differs compares the extension with the API server.
func (c *churn) differs(t *testing.T) string {
	t.Helper()
	var addrs []string
	for n := range c.holders {
		v4, v6 := addresses(n)
		addrs = append(addrs, v4, v6)
	}
	return c.identity.differs(theTruth(t, c.client), addrs, c.uids)
}

// gap is a percentile of the time between an address's release and its heir.
func (c *churn) gap(percent int) time.Duration {
	slices.Sort(c.gaps)
	return c.gaps[len(c.gaps)*percent/100].Round(time.Millisecond)
}

// forget lets go of the test's own notes of the churn, for the heap.
func (c *churn) forget() {
	c.uids, c.gaps = slices.Clone(c.uids[:len(c.holders)]), nil
}
