// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

const (
	// benchPods is a large cluster: Kubernetes is built for 5,000 nodes and
	// 150,000 pods (kubernetes.io, "Considerations for large clusters").
	benchPods = 150_000
	// benchUpdates are the watch events a second.
	benchUpdates = 1_000
)

// syntheticAPI stands in for an API server with many pods, which it makes up as
// they are asked for and does not keep. Its watch streams the first list, then
// events as the benchmark sends them.
type syntheticAPI struct {
	pods   int
	events chan watch.Event
}

// syntheticPod is a pod of the usual size, as a decoder leaves it: every string
// its own.
func syntheticPod(i, turn int) *corev1.Pod {
	started := metav1.NewTime(time.Unix(1_700_000_000, 0))
	v4 := syntheticAddr(i).String()
	v6 := fmt.Sprintf("fd00:10::%x:%x", i>>16, i&0xffff+1)
	app := fmt.Sprintf("app-%d", i/10)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-%d-7d4b9c6f5-%05x", i/10, i), GenerateName: app + "-7d4b9c6f5-", Namespace: fmt.Sprintf("team-%d", i%100),
			UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", turn, i)), ResourceVersion: strconv.Itoa(turn + 1),
			CreationTimestamp: started,
			Labels:            map[string]string{"app": app, "tier": "front", "pod-template-hash": "7d4b9c6f5"},
			Annotations:       map[string]string{"prometheus.io/scrape": "true", "checksum/config": fmt.Sprintf("%064x", i)},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d4b9c6f5"}},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 1500))}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%5000),
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.test/team/app:1.2.3",
				Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "REGION", Value: "north"}},
			}},
			Volumes: []corev1.Volume{{Name: "token"}, {Name: "config"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: v4, PodIPs: []corev1.PodIP{{IP: v4}, {IP: v6}}, HostIP: "192.0.2.1", StartTime: &started,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: started},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: started},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Image: "registry.example.test/team/app:1.2.3", ContainerID: fmt.Sprintf("containerd://%064x", i),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			}},
		},
	}
	return pod
}

func syntheticAddr(i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func (a *syntheticAPI) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return nil, fmt.Errorf("the synthetic API streams its lists")
}

func (a *syntheticAPI) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	out := make(chan watch.Event)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(out)
		send := func(e watch.Event) bool {
			select {
			case out <- e:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for i := range a.pods {
			if !send(watch.Event{Type: watch.Added, Object: syntheticPod(i, 0)}) {
				return
			}
		}
		if !send(bookmarkEvent(1, map[string]string{metav1.InitialEventsAnnotationKey: "true"})) {
			return
		}
		for {
			select {
			case e := <-a.events:
				if !send(e) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return syntheticWatch{out, cancel}, nil
}

type syntheticWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w syntheticWatch) ResultChan() <-chan watch.Event { return w.events }
func (w syntheticWatch) Stop()                          { w.cancel() }

// A way is one of knowing pods by their addresses.
type way struct {
	name  string
	start func(b *testing.B, api *syntheticAPI) (resolve func(netip.Addr) bool, stop func())
}

var ways = []way{{"source", startOurs}, {"informer", startInformer}}

// startOurs starts the source before the extension's cache. One label is wanted.
func startOurs(b *testing.B, api *syntheticAPI) (func(netip.Addr) bool, func()) {
	s, err := New(&Config{Scope: ScopeCluster}, componenttest.NewNopTelemetrySettings())
	require.NoError(b, err)
	sink := &cacheSink{cache: cache.New(1, time.Minute, cache.SystemClock()), synced: make(chan struct{})}
	s.(*podSource).run(api, "synthetic", sink)
	<-sink.synced
	at := time.Now().Add(time.Hour) // covered by live leases, as a point of now is
	return func(a netip.Addr) bool {
			_, o := sink.cache.Resolve(podidentity.Query{Address: a, At: at})
			return o == podidentity.Found
		}, func() {
			require.NoError(b, s.Shutdown(context.Background()))
		}
}

// cacheSink is the extension's way from the source to its cache, less health.
type cacheSink struct {
	cache  *cache.Cache
	synced chan struct{}
	once   sync.Once
}

var _ source.Sink = (*cacheSink)(nil)

func (s *cacheSink) Replace(records []podidentity.Record, at time.Time) {
	s.cache.Replace(0, records, at)
	s.Synced()
}
func (s *cacheSink) Put(r podidentity.Record) { s.cache.Put(0, r, false) }
func (s *cacheSink) End(owner string, at time.Time, terminal bool) {
	s.cache.End(0, owner, at, terminal)
	s.cache.Expire(time.Second)
}
func (s *cacheSink) Synced()                                { s.once.Do(func() { close(s.synced) }) }
func (s *cacheSink) Failed(err error)                       { panic(err) }
func (s *cacheSink) Refresh() <-chan struct{}               { return nil }
func (s *cacheSink) Wanted() (labels, annotations []string) { return []string{"app"}, nil }

// startInformer is the common way: a client-go informer whose transform keeps
// name, UID, labels and addresses, with an index of addresses.
func startInformer(_ *testing.B, api *syntheticAPI) (func(netip.Addr) bool, func()) {
	const byAddress = "address"
	inf := clientcache.NewSharedIndexInformer(&clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			return api.List(ctx, o)
		},
		WatchFuncWithContext: api.Watch,
	}, &corev1.Pod{}, 0, clientcache.Indexers{byAddress: func(obj any) ([]string, error) {
		var ips []string
		for _, ip := range obj.(*corev1.Pod).Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return ips, nil
	}})
	_ = inf.SetTransform(func(obj any) (any, error) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return obj, nil
		}
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion,
				CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp,
				Labels: map[string]string{"app": p.Labels["app"]},
			},
			Spec:   corev1.PodSpec{HostNetwork: p.Spec.HostNetwork, NodeName: p.Spec.NodeName},
			Status: corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, StartTime: p.Status.StartTime},
		}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		inf.RunWithContext(ctx)
	}()
	clientcache.WaitForCacheSync(ctx.Done(), inf.HasSynced)
	return func(a netip.Addr) bool {
			pods, err := inf.GetIndexer().ByIndex(byAddress, a.String())
			return err == nil && len(pods) == 1
		}, func() {
			cancel()
			<-done
		}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkClusterScopeSync measures the first list of a large cluster: how long
// it takes and what it leaves on the heap, cache included. One is enough:
// -benchtime 1x.
func BenchmarkClusterScopeSync(b *testing.B) {
	for _, way := range ways {
		b.Run("way="+way.name, func(b *testing.B) {
			var held uint64
			for b.Loop() {
				before := heapInUse()
				api := &syntheticAPI{pods: benchPods, events: make(chan watch.Event)}
				resolve, stop := way.start(b, api)
				held += heapInUse() - before
				require.True(b, resolve(syntheticAddr(benchPods-1)))
				stop()
			}
			b.ReportMetric(float64(held)/float64(b.N)/benchPods, "heap-B/pod")
		})
	}
}

// BenchmarkClusterScopeLookup measures look-ups by address in a large cluster,
// at rest and while 1,000 watch events a second are taken in: half of them
// status updates that change nothing here, half of them pods that are replaced
// by others on the same addresses.
func BenchmarkClusterScopeLookup(b *testing.B) {
	for _, way := range ways {
		api := &syntheticAPI{pods: benchPods, events: make(chan watch.Event)}
		b.Run("way="+way.name, func(b *testing.B) {
			resolve, stop := way.start(b, api)
			defer stop()
			b.Run("updates=0", func(b *testing.B) { lookups(b, resolve) })
			b.Run(fmt.Sprintf("updates=%d", benchUpdates), func(b *testing.B) {
				sent := sendUpdates(b, api)
				start := time.Now()
				lookups(b, resolve)
				b.ReportMetric(float64(sent.Load())/time.Since(start).Seconds(), "updates/s")
			})
		})
	}
}

// lookups measures look-ups: all together for the mean, and each by itself for
// percentiles. Those have two readings of the clock in them, as clock-ns says.
func lookups(b *testing.B, resolve func(netip.Addr) bool) {
	addrs := make([]netip.Addr, 4096)
	for i := range addrs {
		addrs[i] = syntheticAddr(i * 36 % benchPods)
	}
	found := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if resolve(addrs[i%len(addrs)]) {
			found++
		}
	}
	timed := func(f func(i int)) []time.Duration {
		durations := make([]time.Duration, 500_000)
		for i := range durations {
			t := time.Now()
			f(i)
			durations[i] = time.Since(t)
		}
		slices.Sort(durations)
		return durations
	}
	percentile := func(d []time.Duration, p float64) float64 { return float64(d[int(p*float64(len(d)-1))]) }
	each := timed(func(i int) {
		if resolve(addrs[i%len(addrs)]) {
			found++
		}
	})
	b.ReportMetric(percentile(each, 0.5), "p50-ns")
	b.ReportMetric(percentile(each, 0.99), "p99-ns")
	b.ReportMetric(percentile(each, 0.999), "p99.9-ns")
	b.ReportMetric(percentile(timed(func(int) {}), 0.5), "clock-ns")
	require.NotZero(b, found)
}

// sendUpdates sends events at their rate until the benchmark ends, and counts
// them.
func sendUpdates(b *testing.B, api *syntheticAPI) *atomic.Int64 {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var sent atomic.Int64
	wg.Go(func() {
		turns := map[int]int{}
		start := time.Now()
		for n := 0; ; n++ {
			// Of each four events two are about the same pod: it goes, its heir comes.
			i := n / 4 * 7919 % api.pods
			e := watch.Event{Type: watch.Modified, Object: syntheticPod(i, turns[i])}
			switch n % 4 {
			case 1:
				e.Type = watch.Deleted
			case 2:
				turns[i]++
				e = watch.Event{Type: watch.Added, Object: syntheticPod(i, turns[i])}
			}
			select {
			case <-time.After(time.Until(start.Add(time.Duration(n) * time.Second / benchUpdates))):
			case <-stop:
				return
			}
			select {
			case api.events <- e:
				sent.Add(1)
			case <-stop:
				return
			}
		}
	})
	b.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
	return &sent
}
