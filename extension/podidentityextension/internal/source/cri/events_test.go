// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func withEvents(f *fakeRuntime, n int) { f.queue = make(chan *pb.ContainerEventResponse, n) }

func TestEventMakesItListAgain(t *testing.T) {
	f := newFakeRuntime(t)
	withEvents(f, 10)
	f.run("a", withIP("10.0.0.1")) // pods come and go: there is a stream
	sink := observe(t, hinting(f))
	sink.awaitPod(t, "a")
	f.run("b", withIP("10.0.0.2"))
	f.event("b")
	sink.awaitPod(t, "b")
}

// TestEventsAreReadWhateverElseIsSlow holds up every other call of the source
// while a storm of events comes, and counts what is left unread.
func TestEventsAreReadWhateverElseIsSlow(t *testing.T) {
	f := newFakeRuntime(t)
	const storm = 5000
	withEvents(f, storm)
	f.run("a", withIP("10.0.0.1"))
	sink := observe(t, hinting(f))
	sink.awaitPod(t, "a")
	hold := make(chan struct{})
	f.mu.Lock()
	f.hold["b"] = hold
	f.mu.Unlock()
	f.run("b", withIP("10.0.0.2"))
	for range storm {
		f.event("b")
	}
	// More than all the buffers between could take: only a reader empties it.
	require.Eventually(t, func() bool { return len(f.queue) == 0 }, 30*time.Second, time.Millisecond, "%d events unread", len(f.queue))
	require.NotContains(t, sink.records, "b", "the source was held up all the while")
	close(hold)
	sink.awaitPod(t, "b")
}

func TestRuntimeLetsGoOfAStreamByItself(t *testing.T) {
	f := newFakeRuntime(t)
	withEvents(f, 1)
	f.run("a", withIP("10.0.0.1"))
	sink := observe(t, hinting(f))
	sink.awaitPod(t, "a")
	require.Eventually(t, func() bool { return len(f.opened()) > 0 }, 30*time.Second, time.Millisecond)
	deadline, ok := f.opened()[0].Deadline()
	require.True(t, ok, "the runtime knows no end of the stream")
	require.LessOrEqual(t, time.Until(deadline), eventsFor)
	// The next one follows at once.
	require.Eventually(t, func() bool { return len(f.opened()) > 1 }, 30*time.Second, time.Millisecond)
}

func TestRuntimeWithoutEventsIsAskedOncePerConnection(t *testing.T) {
	f := newFakeRuntime(t)
	f.run("a", withIP("10.0.0.1"))
	sink := observe(t, polling(f))
	sink.awaitPod(t, "a")
	require.Eventually(t, func() bool { return len(f.opened()) == 1 }, 30*time.Second, time.Millisecond)
	for _, id := range []string{"b", "c", "d"} {
		f.run(id, withIP("10.0.0.2"))
		sink.awaitPod(t, id)
		sink.awaitSync(t)
	}
	require.Len(t, f.opened(), 1)
	f.kill()
	sink.awaitFailure(t)
	f.start()
	f.run("e", withIP("10.0.0.3"))
	sink.awaitPod(t, "e")
	require.Eventually(t, func() bool { return len(f.opened()) == 2 }, 30*time.Second, time.Millisecond)
}

func TestQuietNodeHasNoStream(t *testing.T) {
	f := newFakeRuntime(t)
	withEvents(f, 1)
	r, err := connect(socket{unix, f.path}, 0)
	require.NoError(t, err)
	t.Cleanup(r.close)
	ctx, cancel := context.WithCancel(context.Background())
	s := &subscription{hint: func() {}}
	t.Cleanup(s.wait)
	t.Cleanup(cancel)

	s.renew(ctx, r)
	require.False(t, s.open.Load(), "nothing came or went yet")
	require.True(t, s.keep(r))
	s.renew(ctx, r)
	require.True(t, s.open.Load())
	require.False(t, s.keep(r), "there is one already")
	s.until = time.Now().Add(-time.Nanosecond)
	require.Eventually(t, func() bool { return !s.open.Load() }, 30*time.Second, time.Millisecond)
	s.renew(ctx, r)
	require.False(t, s.open.Load())
	require.Len(t, f.opened(), 1)
}
