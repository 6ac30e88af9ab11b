// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// live is a real runtime.
type live struct {
	t  *testing.T
	r  *runtime
	ns string // of the test's pods
}

// newLive connects to the runtime that CRI_ENDPOINT names. It needs a pause image
// and a network to make sandboxes with.
func newLive(t *testing.T) *live {
	endpoint := os.Getenv("CRI_ENDPOINT")
	if endpoint == "" {
		t.Skip("CRI_ENDPOINT names no container runtime")
	}
	s, err := parseEndpoint(endpoint)
	require.NoError(t, err)
	r, err := connect(s, 0)
	require.NoError(t, err)
	t.Cleanup(r.close)
	return &live{t: t, r: r, ns: fmt.Sprintf("live-%d", time.Now().UnixNano())}
}

func (l *live) run(name string, network pb.NamespaceMode) string {
	config := &pb.PodSandboxConfig{
		Metadata: &pb.PodSandboxMetadata{Name: name, Namespace: l.ns, Uid: l.ns + name},
		Labels:   map[string]string{"app": "live", "io.kubernetes.pod.name": name},
		Linux: &pb.LinuxPodSandboxConfig{SecurityContext: &pb.LinuxSandboxSecurityContext{
			NamespaceOptions: &pb.NamespaceOption{Network: network},
		}},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	response, err := l.r.client.RunPodSandbox(ctx, &pb.RunPodSandboxRequest{Config: config})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { l.remove(response.PodSandboxId) })
	return response.PodSandboxId
}

func (l *live) stop(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := l.r.client.StopPodSandbox(ctx, &pb.StopPodSandboxRequest{PodSandboxId: id})
	require.NoError(l.t, err)
}

func (l *live) remove(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := l.r.client.StopPodSandbox(ctx, &pb.StopPodSandboxRequest{PodSandboxId: id})
	require.NoError(l.t, err)
	_, err = l.r.client.RemovePodSandbox(ctx, &pb.RemovePodSandboxRequest{PodSandboxId: id})
	require.NoError(l.t, err)
}

func (l *live) status(id string) *pb.PodSandboxStatusResponse {
	response, err := l.r.client.PodSandboxStatus(context.Background(), &pb.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	require.NoError(l.t, err)
	return response
}

func TestLive(t *testing.T) {
	l := newLive(t)
	cfg := NewDefaultConfig()
	cfg.Endpoint = l.r.socket.String()
	cfg.PollInterval = time.Hour // hints only

	before := l.run("before", pb.NamespaceMode_POD)
	host := l.run("host", pb.NamespaceMode_NODE)
	sink := observe(t, cfg)

	t.Run("a pod that was there", func(t *testing.T) {
		r := sink.awaitPod(t, before)
		require.Equal(t, "before", r.Identity.Name)
		require.Equal(t, l.ns, r.Identity.Namespace)
		require.Equal(t, l.ns+"before", r.Identity.UID)
		require.Equal(t, map[string]string{"app": "live"}, r.Identity.Labels)
		require.WithinDuration(t, time.Now(), r.Begin, time.Minute)

		status := l.status(before)
		require.Equal(t, status.Status.Network.Ip, r.Addresses[0].String())
		require.Len(t, r.Addresses, 1+len(status.Status.Network.AdditionalIps))
		path, err := networkNamespace(status.Info)
		require.NoError(t, err)
		inode, err := netnsInode(path)
		require.NoError(t, err)
		require.Equal(t, inode, r.NetNS)
	})
	t.Run("a pod on the host's network", func(t *testing.T) {
		r := sink.awaitPod(t, host)
		require.True(t, r.HostNetwork)
		require.Empty(t, r.Addresses)
		require.Zero(t, r.NetNS)
	})
	t.Run("pods that come and go", func(t *testing.T) {
		const pods = 20
		var took []time.Duration
		for i := range pods {
			id := l.run(fmt.Sprint(i), pb.NamespaceMode_POD)
			ran := time.Now()
			select {
			case sink.refresh <- struct{}{}: // as look-ups that miss do, once a second
			default:
			}
			r := sink.awaitPod(t, id)
			took = append(took, time.Since(ran))
			require.NotEmpty(t, r.Addresses)
			l.stop(id)
			sink.awaitDead(t, id)
		}
		slices.Sort(took)
		t.Logf("from the runtime's answer to known: median %v, most %v", took[pods/2], took[pods-1])
	})
	require.Empty(t, sink.failures)
}

// TestLiveRuntimeIsNeverHeldUp makes pods while nobody reads the events of a
// subscription that was opened as the source opens it: the runtime must let go
// of it by itself.
func TestLiveRuntimeIsNeverHeldUp(t *testing.T) {
	l := newLive(t)
	ctx, cancel := context.WithTimeout(context.Background(), eventsFor)
	defer cancel()
	stream, err := l.r.client.GetContainerEvents(ctx, &pb.GetEventsRequest{})
	require.NoError(t, err)
	_ = stream // and never read
	const pods, atOnce = 400, 4
	var (
		mu   sync.Mutex
		most time.Duration
		wg   sync.WaitGroup
		next = make(chan int)
	)
	for range atOnce {
		wg.Go(func() {
			for i := range next {
				began := time.Now()
				id := l.run(fmt.Sprint(i), pb.NamespaceMode_NODE)
				l.remove(id)
				mu.Lock()
				most = max(most, time.Since(began))
				mu.Unlock()
			}
		})
	}
	for i := range pods {
		next <- i
	}
	close(next)
	wg.Wait()
	t.Logf("the slowest of %d pods took %v from its making to its removal", pods, most)
	require.Less(t, most, 2*eventsFor+10*time.Second)
}
