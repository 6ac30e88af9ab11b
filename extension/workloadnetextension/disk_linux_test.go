// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
)

// mount gives the node's storage a file system of its own.
func (n *node) mount(t *testing.T, flags uintptr, options string) {
	t.Helper()
	require.NoError(t, unix.Mount("workloadnet-test", n.dir, "tmpfs", flags, options))
	t.Cleanup(func() {
		n.stop()
		require.NoError(t, unix.Unmount(n.dir, unix.MNT_DETACH))
	})
}

// With file_storage on a disk that is full, Attach fails and leaves nothing; what is
// attached stays so, and is not forgotten.
func TestDiskFull(t *testing.T) {
	n := newNode(t, "10.88.0.0/24")
	n.mount(t, 0, "size=512k")
	n.start()
	n.attach(nettest.NewPod(t), "sandbox-0")
	filler := filepath.Join(n.dir, "filler")
	f, err := os.Create(filler)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, f.Close())

	attached := 1
	for { // the storage's file has some room of its own left
		pod := nettest.NewPod(t)
		before := nettest.NodeState(t)
		r := request(pod, fmt.Sprint("sandbox-", attached))
		r.Workload.Annotations = map[string]string{"long": strings.Repeat("x", 20_000)}
		if _, err = n.client.Attach(context.Background(), r); err != nil {
			assert.Equal(t, before, nettest.NodeState(t))
			break
		}
		attached++
		require.Less(t, attached, 100)
	}
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "no space left on device")
	assert.Len(t, n.list(), attached)

	require.NoError(t, os.Remove(filler))
	n.attach(nettest.NewPod(t), "after")
	n.stop()
	n.start()
	assert.Len(t, n.list(), attached+1)
	for _, a := range n.list() {
		_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: a.WorkloadId})
		assert.NoError(t, err)
	}
	n.waitReaped()
}

func TestDiskReadOnly(t *testing.T) {
	n := newNode(t)
	n.cfg.Endpoint = newNode(t).cfg.Endpoint // elsewhere
	n.mount(t, unix.MS_RDONLY, "")
	assert.ErrorContains(t, n.tryStart(), `storage: "file_storage": open `+n.dir)
	assert.NoFileExists(t, strings.TrimPrefix(n.cfg.Endpoint, unixScheme))
}
