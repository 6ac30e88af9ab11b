// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestRecord(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", func(s *pb.PodSandboxStatus) {
		withIP("10.0.0.1", "fd00::1")(s)
		s.Labels = map[string]string{"app": "web", "io.kubernetes.pod.name": "pod-a", "io.kubernetes.pod.uid": "uid-a"}
		s.Annotations = map[string]string{"a": "b"}
	})
	sink := observe(t, polling(f))
	require.Equal(t, podidentity.Record{
		Owner: "a", Sandbox: "a",
		Identity:  podidentity.Identity{Name: "pod-a", Namespace: "demo", UID: "uid-a", Labels: map[string]string{"app": "web"}},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Begin:     time.Unix(1_700_000_000, 0),
	}, sink.awaitPod(t, "a"))
}

func TestHostNetwork(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", func(s *pb.PodSandboxStatus) {
		s.Linux = &pb.LinuxPodSandboxStatus{Namespaces: &pb.Namespace{Options: &pb.NamespaceOption{Network: pb.NamespaceMode_NODE}}}
		s.Network.Ip = "192.168.0.1"
	})
	sink := observe(t, polling(f))
	r := sink.awaitPod(t, "a")
	require.True(t, r.HostNetwork)
	require.Empty(t, r.Addresses)
	require.Zero(t, r.NetNS)
}

func TestSandboxIsAskedOnce(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	sink := observe(t, polling(f))
	for range 5 {
		sink.awaitSync(t)
	}
	statuses, verboses := f.calls("a")
	require.Equal(t, 1, statuses)
	if verbose {
		require.Equal(t, 1, verboses)
	}
}

func TestSandboxWithoutAddressesIsAskedAgain(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", nil)
	sink := observe(t, hinting(f))
	require.Empty(t, sink.awaitPod(t, "a").Addresses)
	f.run("a", withIP("10.0.0.1"))
	sink.await(t, "the address is known", func() bool { return len(sink.records["a"].Addresses) == 1 })
	if _, verboses := f.calls("a"); verbose {
		require.Equal(t, 1, verboses, "its namespace was known already")
	}
}

func TestStoppedAndRemovedSandboxesAreDead(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("stopped", withIP("10.0.0.1"))
	f.run("removed", withIP("10.0.0.2"))
	f.run("dead before we came", func(s *pb.PodSandboxStatus) {
		withIP("10.0.0.3")(s) // as a sandbox whose pause process was killed still says
		s.State = pb.PodSandboxState_SANDBOX_NOTREADY
	})
	sink := observe(t, polling(f))
	sink.awaitPod(t, "stopped")
	sink.awaitPod(t, "removed")
	sink.awaitDead(t, "dead before we came")
	f.run("stopped", func(s *pb.PodSandboxStatus) {
		withIP("10.0.0.1")(s)
		s.State = pb.PodSandboxState_SANDBOX_NOTREADY
	})
	f.remove("removed")
	sink.awaitDead(t, "stopped")
	sink.awaitDead(t, "removed")
	statuses, _ := f.calls("dead before we came")
	require.Zero(t, statuses)
	require.Empty(t, sink.records)
}

func TestSandboxRemovedBetweenListAndStatus(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	hold := make(chan struct{})
	f.hold["a"] = hold
	f.run("b", withIP("10.0.0.2"))
	sink := observe(t, polling(f))
	sink.awaitPod(t, "b")
	f.remove("a")
	close(hold)
	sink.awaitDead(t, "a")
	require.Empty(t, sink.failures)
}

func TestOneBrokenSandboxDoesNotSpoilTheOthers(t *testing.T) {
	for name, breakIt := range map[string]func(*fakeRuntime){
		"refused":    func(f *fakeRuntime) { f.broken["a"] = status.Error(codes.Unknown, "corrupt") },
		"nameless":   func(f *fakeRuntime) { f.run("a", func(s *pb.PodSandboxStatus) { s.Metadata = nil }) },
		"no address": func(f *fakeRuntime) { f.run("a", withIP("not an address")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRuntime(t)
			f.run("a", withIP("10.0.0.1"))
			breakIt(f)
			f.run("b", withIP("10.0.0.2"))
			sink := observe(t, polling(f))
			sink.awaitPod(t, "b")
			sink.awaitSync(t)
			require.Empty(t, sink.failures)
			f.mu.Lock()
			delete(f.broken, "a")
			f.mu.Unlock()
			f.run("a", withIP("10.0.0.1"))
			sink.awaitPod(t, "a")
		})
	}
}

func TestRuntimeGoesAwayAndComesBack(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	f.run("b", withIP("10.0.0.2"))
	sink := observe(t, polling(f))
	sink.awaitPod(t, "a")
	sink.awaitPod(t, "b")
	f.kill()
	err := sink.awaitFailure(t)
	require.ErrorContains(t, err, "list the pod sandboxes on "+f.endpoint())
	require.Len(t, sink.records, 2, "what was known stays")
	require.Empty(t, sink.dead)
	f.remove("a")
	f.run("c", withIP("10.0.0.3"))
	f.start()
	sink.awaitPod(t, "c")
	sink.awaitDead(t, "a")
	statuses, _ := f.calls("b")
	require.Equal(t, 1, statuses, "what did not change is not asked again")
}

func TestListOfMoreThanFourMegabytes(t *testing.T) {
	f := newFakeRuntime(t)
	for i := range 5 {
		f.run(fmt.Sprint(i), func(s *pb.PodSandboxStatus) {
			withIP(fmt.Sprintf("10.0.0.%d", i+1))(s)
			s.Labels = map[string]string{"big": strings.Repeat("x", 1<<20)}
		})
	}
	sink := observe(t, polling(f))
	sink.await(t, "all are known", func() bool { return len(sink.records) == 5 })
	require.Empty(t, sink.failures)
}

func TestShutdownEndsACallInFlight(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	f.hold["a"] = make(chan struct{}) // for ever
	f.run("b", withIP("10.0.0.2"))
	s, err := New(&Config{Endpoint: f.endpoint(), PollInterval: time.Hour, Timeout: time.Hour}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(context.Background()), "without Start")
	sink := newRecorder()
	require.NoError(t, s.Start(context.Background(), sink))
	sink.awaitPod(t, "b")
	require.NoError(t, s.Shutdown(context.Background()))
	require.Empty(t, sink.failures, "our own end is not the runtime's failure")
}

func TestCallsHaveADeadline(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	f.hold["a"] = make(chan struct{})
	sink := observe(t, &Config{Endpoint: f.endpoint(), PollInterval: time.Hour, Timeout: 2 * time.Second})
	require.ErrorContains(t, sink.awaitFailure(t), "ask for the status of sandbox a on "+f.endpoint(), "there is no other")
	require.Zero(t, sink.synced)
	f.release("a")
	sink.awaitPod(t, "a")
	sink.await(t, "the source is well", func() bool { return sink.synced > 0 })
}

// TestHangingSandboxHoldsUpNoOther has more sandboxes whose status calls hang
// than there may be calls in flight.
func TestHangingSandboxHoldsUpNoOther(t *testing.T) {
	f := newFakeRuntime(t)
	hangs := func(i int) string { return fmt.Sprint("hangs ", i) }
	for i := range 2 * maxCalls {
		f.run(hangs(i), withIP(fmt.Sprintf("10.0.1.%d", i+1)))
		f.hold[hangs(i)] = make(chan struct{})
	}
	f.run("a", withIP("10.0.0.1"))
	cfg := polling(f)
	cfg.Timeout = 2 * time.Second // the list's, too, which must not fail
	sink := observe(t, cfg)
	sink.awaitPod(t, "a")
	sink.await(t, "the first list is told of", func() bool { return sink.synced > 0 })
	for i := range 5 {
		id := fmt.Sprint("later ", i)
		f.run(id, withIP("10.0.0.2"))
		sink.awaitPod(t, id)
		f.remove(id)
		sink.awaitDead(t, id)
	}
	require.Empty(t, sink.failures)
	for i := range 2 * maxCalls { // or each would take its turn of two calls of 2 s
		f.release(hangs(i))
	}
	sink.awaitPod(t, hangs(0))
}

// Sandboxes that were not told of in time wait in a line of their own, with a pause
// that doubles.
func TestLateSandboxes(t *testing.T) {
	o := newObserver(&Config{Timeout: time.Second}, zap.NewNop(), newRecorder())
	now := time.Now()
	for i := range 2 * maxCalls {
		o.known[fmt.Sprint("late ", i)] = sandbox{pause: time.Second, after: now}
	}
	o.known["new"] = sandbox{}
	o.lineUp(now)
	require.Equal(t, []string{"new"}, o.prompt.ids)
	require.Len(t, o.late.ids, 2*maxCalls)

	for _, want := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		c := &call{began: now}
		c.enter(&o.prompt)
		o.take(callAnswer{c, answer{id: "new", late: true, unanswered: true, err: errors.New("no answer")}})
		require.Equal(t, want*time.Second, o.known["new"].pause)
		require.WithinRange(t, o.known["new"].after, now.Add(want*time.Second), time.Now().Add(want*time.Second))
	}
}

// TestSickNode has more sandboxes whose shims hang than may be asked at once, and
// deadlines that never come: the others are known all the same.
func TestSickNode(t *testing.T) {
	f := newFakeRuntime(t)
	const sick, healthy = 5 * maxCalls, 10
	for i := range sick {
		id := fmt.Sprint("sick ", i)
		f.run(id, withIP(fmt.Sprintf("10.0.1.%d", i+1)))
		f.hold[id] = make(chan struct{})
	}
	for i := range healthy {
		f.run(fmt.Sprint(i), withIP(fmt.Sprintf("10.0.0.%d", i+1)))
	}
	cfg := hinting(f)
	cfg.Timeout = time.Hour
	sink := observe(t, cfg)
	sink.await(t, "the healthy ones are known", func() bool { return len(sink.records) == healthy })
	require.Zero(t, sink.synced, "what was known of the others before a restart is not over")
	for i := range sick {
		f.release(fmt.Sprint("sick ", i))
	}
	sink.await(t, "all are known", func() bool { return sink.synced > 0 && len(sink.records) == sick+healthy })
}

// TestRestartCuresTheRuntime has a sandbox whose next turn is far away, and a
// runtime that is restarted while a list notices, or between two.
func TestRestartCuresTheRuntime(t *testing.T) {
	for name, noticed := range map[string]bool{"a list failed": true, "no list failed": false} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRuntime(t)
			f.run("a", withIP("10.0.0.1"))
			cfg := NewDefaultConfig()
			cfg.Endpoint = f.endpoint()
			o := newObserver(cfg, zap.NewNop(), newRecorder())
			defer o.close()
			ctx := t.Context()
			require.NoError(t, o.list(ctx))
			s := o.known["a"]
			s.unanswered, s.pause, s.after = context.DeadlineExceeded, longestPause, time.Now().Add(longestPause)
			o.known["a"] = s
			require.NoError(t, o.list(ctx))
			require.Empty(t, o.prompt.ids, "the runtime has run on")

			f.kill()
			o.runtime.conn.WaitForStateChange(ctx, connectivity.Ready)
			if noticed {
				require.Error(t, o.list(ctx))
			}
			f.start()
			if o.list(ctx) != nil { // gRPC can take the broken connection once more
				require.NoError(t, o.list(ctx))
			}
			require.Equal(t, []string{"a"}, o.prompt.ids)
		})
	}
}

// hangingClient is a runtime whose status calls run into their deadlines.
type hangingClient struct {
	pb.RuntimeServiceClient

	mu          sync.Mutex
	calls, most int
}

// count adds to the calls in flight and returns the most there were.
func (c *hangingClient) count(calls int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls += calls
	c.most = max(c.most, c.calls)
	return c.most
}

func (c *hangingClient) PodSandboxStatus(ctx context.Context, _ *pb.PodSandboxStatusRequest, _ ...grpc.CallOption) (*pb.PodSandboxStatusResponse, error) {
	c.count(1)
	defer c.count(-1)
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

func TestCallsInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := NewDefaultConfig()
		cfg.Timeout = time.Hour
		o := newObserver(cfg, zap.NewNop(), newRecorder())
		client := &hangingClient{}
		o.runtime = &runtime{client: client}
		items := make([]*pb.PodSandbox, 1000)
		for i := range items {
			items[i] = &pb.PodSandbox{Id: fmt.Sprint(i)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		until := func(at time.Time) {
			for time.Now().Before(at) {
				o.compare(items, time.Now())
				o.lineUp(time.Now())
				o.next = time.Now().Add(time.Minute)
				require.True(t, o.wait(ctx, time.Time{}, nil, nil))
			}
		}
		until(time.Now().Add(cfg.Timeout / 2))
		require.Equal(t, maxCalls+maxSlow, client.count(0))
		until(time.Now().Add(2 * cfg.Timeout))
		require.Equal(t, maxCalls+maxSlow+maxLate, client.count(0), "some are late")
		cancel()
		o.asks.Wait()
	})
}

// What a list has asked for is told at once, also while the next one waits.
func TestHintKeepsNoAnswerWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newRecorder()
		o := newObserver(NewDefaultConfig(), zap.NewNop(), sink)
		o.known["a"] = sandbox{asking: true}
		began := time.Now()
		c := &call{began: began}
		c.enter(&o.prompt)
		hints := make(chan struct{}, 1)
		hints <- struct{}{}
		var told time.Duration
		o.asks.Go(func() {
			time.Sleep(leastGap / 10) // of the bubble's clock: what the runtime takes
			o.answers <- callAnswer{c, answer{id: "a", complete: true, record: podidentity.Record{Owner: "a"}}}
			synctest.Wait()
			sink.mu.Lock()
			defer sink.mu.Unlock()
			if sink.puts == 1 {
				told = time.Since(began)
			}
		})
		o.next = began.Add(time.Minute)
		require.True(t, o.wait(t.Context(), began.Add(leastGap), hints, nil))
		require.Equal(t, leastGap, time.Since(began), "when the next list is")
		o.asks.Wait()
		require.Equal(t, leastGap/10, told)
	})
}

// TestListsGoOnWhileAStatusCallHangs has a deadline that never comes.
func TestListsGoOnWhileAStatusCallHangs(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	f.run("hangs", withIP("10.0.0.2"))
	f.hold["hangs"] = make(chan struct{})
	cfg := hinting(f)
	cfg.Timeout = time.Hour
	sink := observe(t, cfg)
	sink.awaitPod(t, "a")
	require.Zero(t, sink.synced, "what was known of it before a restart is not over")
	f.remove("a")
	f.run("b", withIP("10.0.0.1"))
	sink.refresh <- struct{}{}
	sink.awaitDead(t, "a")
	sink.awaitPod(t, "b")
	f.release("hangs")
	sink.awaitPod(t, "hangs")
	sink.await(t, "it is told of", func() bool { return sink.synced > 0 })
	require.Empty(t, sink.failures)
}

// TestSandboxThatEndsWhileItsStatusIsAskedFor never comes back by a late answer.
func TestSandboxThatEndsWhileItsStatusIsAskedFor(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	cfg := NewDefaultConfig()
	cfg.Endpoint = f.endpoint()
	sink := newRecorder()
	o := newObserver(cfg, zap.NewNop(), sink)
	defer o.close()
	require.NoError(t, o.list(t.Context()))
	o.learn(t.Context())
	a := <-o.answers
	require.Equal(t, "pod-a", a.record.Identity.Name)
	f.remove("a")
	require.NoError(t, o.list(t.Context()))
	o.take(a)
	require.Empty(t, sink.records)
	require.Equal(t, []string{"a"}, sink.dead)
	require.True(t, o.prompt.empty())
}

func TestMissedLookupsMakeItListAgain(t *testing.T) {
	f := newFakeRuntime(t)
	sink := observe(t, hinting(f))
	sink.awaitSync(t)
	f.run("a", withIP("10.0.0.1"))
	sink.refresh <- struct{}{}
	sink.awaitPod(t, "a")
}

func TestNoRuntimeAtTheEndpoint(t *testing.T) {
	path := t.TempDir() + "/no.sock"
	sink := observe(t, &Config{Endpoint: "unix://" + path, PollInterval: time.Hour, Timeout: time.Second})
	err := sink.awaitFailure(t)
	require.ErrorContains(t, err, "unix://"+path)
	require.ErrorContains(t, err, "is the runtime running")
	require.Zero(t, sink.synced)
}

// The wait between two attempts doubles up to the poll interval and stays there,
// however long the runtime is away.
func TestRuntimeThatIsAwayForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := NewDefaultConfig()
		cfg.Endpoint = "unix:///nonexistent/cri.sock"
		sink := newRecorder()
		o := newObserver(cfg, zap.NewNop(), sink)
		defer o.close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*cfg.PollInterval)
		defer cancel()
		o.run(ctx)
		require.InDelta(t, 104, len(sink.failures), 1)
	})
}

func TestManySandboxesAtOnce(t *testing.T) {
	f := newFakeRuntime(t)
	for i := range 300 {
		f.run(fmt.Sprint(i), withIP(fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)))
	}
	sink := observe(t, polling(f))
	sink.await(t, "all are known", func() bool { return len(sink.records) == 300 })
	require.Equal(t, 300, sink.puts)
	for i := range 300 {
		f.remove(fmt.Sprint(i))
	}
	sink.await(t, "all are dead", func() bool { return len(sink.dead) == 300 && len(sink.records) == 0 })
	require.False(t, slices.ContainsFunc(sink.failures, func(err error) bool { return err != nil }))
}

// gRPC dials by itself for as long as there is a connection that failed, and logs
// every time: a runtime that is away must not leave one.
func TestRuntimeThatIsAwayIsNotDialledByGRPC(t *testing.T) {
	f := newFakeRuntime(t)
	cfg := NewDefaultConfig()
	cfg.Endpoint = f.endpoint()
	o := newObserver(cfg, zap.NewNop(), newRecorder())
	defer o.close()
	list := func() error { return o.list(t.Context()) }
	require.NoError(t, list())
	require.NotNil(t, o.runtime)

	f.kill()
	require.Error(t, list(), "the connection broke")
	require.Nil(t, o.runtime)
	require.ErrorContains(t, list(), "connect to the container runtime at "+f.endpoint())
	require.Nil(t, o.runtime)

	f.start()
	require.NoError(t, list())
}
