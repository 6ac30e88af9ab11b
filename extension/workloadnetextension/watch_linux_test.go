// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
)

// watch begins a watch, which ends with the test.
func (n *node) watch(t *testing.T) pb.WorkloadNetworking_WatchClient {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w, err := n.client.Watch(ctx, &pb.WatchRequest{})
	require.NoError(t, err)
	return w
}

func recv(t *testing.T, w pb.WorkloadNetworking_WatchClient) *pb.WatchResponse {
	t.Helper()
	r, err := w.Recv()
	require.NoError(t, err)
	return r
}

func TestWatch(t *testing.T) {
	n := newNode(t).start()
	a := n.attach(nettest.NewPod(t), "sandbox-a")
	b := n.attach(nettest.NewPod(t), "sandbox-b")
	w := n.watch(t)
	assert.True(t, proto.Equal(a, recv(t, w).GetAttached()))
	assert.True(t, proto.Equal(b, recv(t, w).GetAttached()))
	assert.NotNil(t, recv(t, w).GetSynced())

	pod := nettest.NewPod(t)
	c := n.attach(pod, "sandbox-c")
	assert.True(t, proto.Equal(c, recv(t, w).GetAttached()))
	n.detach("sandbox-a")
	assert.True(t, proto.Equal(a, recv(t, w).GetDetached()))
	pod.Close() // without a Detach
	assert.True(t, proto.Equal(c, recv(t, w).GetDetached()))
}

func TestWatchEndsWithTheService(t *testing.T) {
	n := newNode(t).start()
	w := n.watch(t)
	assert.NotNil(t, recv(t, w).GetSynced())
	ended := make(chan error, 1)
	go func() {
		_, err := w.Recv()
		ended <- err
	}()
	require.NoError(t, n.ext.Shutdown(context.Background()))
	err := <-ended
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

// churn changes the table without the kernel: that much would take long.
func churn(n *node, changes int) {
	for i := range changes {
		a := &journal.Attachment{WorkloadID: fmt.Sprint("fake-", i), HostIndex: 1<<20 + i, Workload: &journal.Workload{Name: string(make([]byte, 1000))}}
		n.ext.service.table.put(a)
		n.ext.service.table.remove(a)
	}
}

// A watcher that does not read is cut off, with an error that says why, and holds
// up nobody.
func TestSlowWatcherIsCutOff(t *testing.T) {
	n := newNode(t).start()
	slow, fast := n.watch(t), n.watch(t)
	assert.NotNil(t, recv(t, slow).GetSynced())
	assert.NotNil(t, recv(t, fast).GetSynced())
	read := make(chan int, 1)
	const changes = 3000
	go func() {
		i := 0
		for ; i < 2; i++ {
			if _, err := fast.Recv(); err != nil {
				break
			}
		}
		read <- i
	}()
	churn(n, 1)
	assert.Equal(t, 2, <-read, "the other watcher gets its changes")
	churn(n, changes)
	n.attach(nettest.NewPod(t), "sandbox-1") // and the service works on

	events := 0
	var err error
	for err == nil {
		if _, err = slow.Recv(); err == nil {
			events++
		}
	}
	assert.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	assert.ErrorContains(t, err, "it fell 1024 changes behind: watch again")
	assert.Less(t, events, 2*changes)
	assert.False(t, errors.Is(err, io.EOF))

	again := n.watch(t)
	assert.Equal(t, "sandbox-1", recv(t, again).GetAttached().GetWorkloadId())
}

func TestTooManyWatchers(t *testing.T) {
	n := newNode(t).start()
	for range maxWatchers {
		assert.NotNil(t, recv(t, n.watch(t)).GetSynced())
	}
	_, err := n.watch(t).Recv()
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "there are 32 watchers already")
}

func TestWatcherThatLeavesMakesRoom(t *testing.T) {
	n := newNode(t).start()
	for range 2 * maxWatchers {
		ctx, cancel := context.WithCancel(context.Background())
		w, err := n.client.Watch(ctx, &pb.WatchRequest{})
		require.NoError(t, err)
		assert.NotNil(t, recv(t, w).GetSynced())
		cancel()
		eventually(t, func(c *assert.CollectT) {
			n.ext.service.table.mu.Lock()
			defer n.ext.service.table.mu.Unlock()
			assert.Empty(c, n.ext.service.table.watchers)
		})
	}
}
