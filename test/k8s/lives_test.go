// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
)

// TestLives puts pods through what happens to pods and asks who holds their
// addresses.
func TestLives(t *testing.T) {
	cluster := bed.Start(t, nil)
	client := cluster.Client(bed.Admin)
	createNamespace(t, client, namespace)
	k := kubelet{client, "node-1"}
	i := startIdentity(t, cluster.Kubeconfig(bed.Admin, cluster.Addr()), nil, "app")
	i.awaitSynced(t)
	ctx := t.Context()
	pod := must(t)
	holds := func(t *testing.T, addr string, want *corev1.Pod) {
		t.Helper()
		await(t, addr+" belongs to "+want.Name, func() bool { return i.uid(addr) == string(want.UID) })
	}
	free := func(t *testing.T, addr string) {
		t.Helper()
		await(t, addr+" belongs to nobody", func() bool { return i.uid(addr) == "ended" })
	}

	t.Run("both families, and only the labels asked for", func(t *testing.T) {
		a := pod(k.run(ctx, "dual-0", "10.9.1.1", "fd00:9::1:1"))
		holds(t, "10.9.1.1", a)
		holds(t, "fd00:9::1:1", a)
		holds(t, "::ffff:10.9.1.1", a)
		id, _ := i.Resolve(podidentity.Query{Address: netip.MustParseAddr("10.9.1.1")})
		assert.Equal(t, "dual-0", id.Name)
		assert.Equal(t, namespace, id.Namespace)
		assert.Equal(t, map[string]string{"app": "load"}, id.Labels)
		assert.Empty(t, id.Annotations)
	})
	t.Run("host network, by UID and never by address", func(t *testing.T) {
		a := pod(k.create(ctx, "host-0", func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
		a = pod(k.report(ctx, a, func(s *corev1.PodStatus) { runs(s, "192.0.2.1") }))
		await(t, "its UID is known", func() bool {
			return describe(i.Resolve(podidentity.Query{UID: string(a.UID)})) == string(a.UID)
		})
		assert.Equal(t, "unknown", i.uid("192.0.2.1"))
	})
	t.Run("completed pod does not shadow its address's next pod", func(t *testing.T) {
		a := pod(k.run(ctx, "job-0", "10.9.1.2"))
		holds(t, "10.9.1.2", a)
		pod(k.report(ctx, a, func(s *corev1.PodStatus) { stopped(s); s.Phase = corev1.PodSucceeded }))
		free(t, "10.9.1.2")
		b := pod(k.run(ctx, "web-2", "10.9.1.2"))
		holds(t, "10.9.1.2", b)
		require.NoError(t, k.remove(ctx, "job-0"))
		c := pod(k.run(ctx, "after-2", "10.9.1.200"))
		holds(t, "10.9.1.200", c) // the removal has been seen by now
		holds(t, "10.9.1.2", b)
	})
	t.Run("deleting pod holds its address until its containers are gone", func(t *testing.T) {
		a := pod(k.run(ctx, "web-3", "10.9.1.3"))
		holds(t, "10.9.1.3", a)
		require.NoError(t, k.terminate(ctx, "web-3"))
		a = pod(client.CoreV1().Pods(namespace).Get(ctx, "web-3", metav1.GetOptions{}))
		require.NotNil(t, a.DeletionTimestamp)
		c := pod(k.run(ctx, "after-3", "10.9.1.201"))
		holds(t, "10.9.1.201", c)
		holds(t, "10.9.1.3", a)
		pod(k.report(ctx, a, stopped))
		free(t, "10.9.1.3")
		b := pod(k.run(ctx, "web-3b", "10.9.1.3"))
		holds(t, "10.9.1.3", b)
		require.NoError(t, k.remove(ctx, "web-3"))
		c = pod(k.run(ctx, "after-3b", "10.9.1.202"))
		holds(t, "10.9.1.202", c)
		holds(t, "10.9.1.3", b)
	})
	t.Run("same name, same address, another pod", func(t *testing.T) {
		for range 20 {
			a := pod(k.run(ctx, "web-4", "10.9.1.4"))
			holds(t, "10.9.1.4", a)
			require.NoError(t, k.remove(ctx, "web-4"))
		}
	})
	t.Run("another address of the same pod", func(t *testing.T) {
		a := pod(k.run(ctx, "web-5", "10.9.1.5"))
		holds(t, "10.9.1.5", a)
		a = pod(k.report(ctx, a, func(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionFalse }))
		free(t, "10.9.1.5")
		a = pod(k.report(ctx, a, func(s *corev1.PodStatus) { runs(s, "10.9.1.6") }))
		holds(t, "10.9.1.6", a)
		free(t, "10.9.1.5")
	})
	t.Run("delete without an address", func(t *testing.T) {
		a := pod(k.run(ctx, "web-7", "10.9.1.7", "fd00:9::1:7"))
		holds(t, "10.9.1.7", a)
		a = pod(k.report(ctx, a, func(s *corev1.PodStatus) { s.PodIP, s.PodIPs = "", nil }))
		require.Empty(t, a.Status.PodIPs, "the last state of the pod, which its deletion carries")
		require.NoError(t, k.remove(ctx, "web-7"))
		free(t, "10.9.1.7")
		free(t, "fd00:9::1:7")
		b := pod(k.run(ctx, "web-7b", "10.9.1.7"))
		holds(t, "10.9.1.7", b)
		free(t, "fd00:9::1:7")
	})
	t.Run("one secondary address of two pods", func(t *testing.T) {
		a := pod(k.run(ctx, "red-8", "10.9.1.8", "fd00:9::1:8"))
		holds(t, "fd00:9::1:8", a)
		b := pod(k.run(ctx, "blue-8", "10.9.1.9", "fd00:9::1:8"))
		holds(t, "10.9.1.9", b)
		holds(t, "10.9.1.8", a)
		await(t, "nobody is guessed", func() bool { return i.uid("fd00:9::1:8") == "ambiguous" })
		require.NoError(t, k.remove(ctx, "red-8"))
		holds(t, "fd00:9::1:8", b)
	})
	t.Run("static pod, by the UID that the node knows", func(t *testing.T) {
		const uid = "f5d1b6a0c3e94b5c8d7e6f5a4b3c2d1e"
		uidIs := func(t *testing.T, want string) {
			t.Helper()
			await(t, uid+" is "+want, func() bool { return describe(i.Resolve(podidentity.Query{UID: uid})) == want })
		}
		a := pod(k.create(ctx, "static-node-1", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: uid}
		}))
		uidIs(t, uid)
		for range 2 {
			a = pod(k.report(ctx, a, func(s *corev1.PodStatus) { runs(s, "10.9.1.10") }))
			await(t, "10.9.1.10 is its own", func() bool { return i.uid("10.9.1.10") == uid })
			uidIs(t, uid)
			a = pod(k.report(ctx, a, func(s *corev1.PodStatus) { stopped(s); s.Phase = corev1.PodFailed }))
			free(t, "10.9.1.10")
			uidIs(t, "ended")
		}
	})
	assert.Empty(t, i.warnings())
}

// TestChangesWhileNobodyWatches: the connection is down while pods come and go
// and the API server is restarted, which expires the resource version that the
// source would go on from.
func TestChangesWhileNobodyWatches(t *testing.T) {
	cluster := bed.Start(t, nil)
	client := cluster.Client(bed.Admin)
	createNamespace(t, client, namespace)
	k := kubelet{client, "node-1"}
	proxy := bed.NewProxy(t, cluster.Addr())
	ctx := t.Context()
	pod := must(t)
	deleted := pod(k.run(ctx, "deleted", "10.9.2.1"))
	completed := pod(k.run(ctx, "completed", "10.9.2.2"))
	replaced := pod(k.run(ctx, "replaced", "10.9.2.3"))
	kept := pod(k.run(ctx, "kept", "10.9.2.4"))
	wiped := pod(k.run(ctx, "wiped", "10.9.2.5"))
	before := kept.ResourceVersion

	i := startIdentity(t, cluster.Kubeconfig(bed.Admin, proxy.Addr()), nil)
	i.awaitSynced(t)
	for addr, p := range map[string]*corev1.Pod{"10.9.2.1": deleted, "10.9.2.2": completed, "10.9.2.3": replaced, "10.9.2.4": kept, "10.9.2.5": wiped} {
		require.Equal(t, string(p.UID), i.uid(addr))
	}

	proxy.SetDown(true)
	await(t, "the source to say so", func() bool { return len(i.warnings()) == 1 })
	require.NoError(t, k.remove(ctx, "deleted"))
	pod(k.report(ctx, completed, func(s *corev1.PodStatus) { stopped(s); s.Phase = corev1.PodFailed }))
	require.NoError(t, k.remove(ctx, "replaced"))
	pod(k.report(ctx, wiped, func(s *corev1.PodStatus) { s.PodIP, s.PodIPs = "", nil }))
	require.NoError(t, k.remove(ctx, "wiped"))
	heir := pod(k.run(ctx, "replaced", "10.9.2.1"))
	cluster.KillAPIServer()
	cluster.StartAPIServer()
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: before})
	if err == nil {
		e := <-w.ResultChan()
		w.Stop()
		require.Equal(t, watch.Error, e.Type, "the test means to have the old resource version expired")
		err = apierrors.FromObject(e.Object)
	}
	require.True(t, apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "%v", err)
	assert.Equal(t, string(kept.UID), i.uid("10.9.2.4"), "what was known stays")
	proxy.SetDown(false)

	await(t, "the heir", func() bool { return i.uid("10.9.2.1") == string(heir.UID) })
	assert.Equal(t, "ended", i.uid("10.9.2.2"))
	assert.Equal(t, "ended", i.uid("10.9.2.3"))
	assert.Equal(t, "ended", i.uid("10.9.2.5"))
	assert.Equal(t, string(kept.UID), i.uid("10.9.2.4"))
	assert.Equal(t, "ended", describe(i.Resolve(podidentity.Query{UID: string(deleted.UID)})))
	assert.Len(t, i.warnings(), 1, "one for the whole time")
}
