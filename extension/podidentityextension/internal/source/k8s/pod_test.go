// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func samplePod(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	pod := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(b, pod))
	return pod
}

func TestObserveSamples(t *testing.T) {
	utc := func(h, m, s int) time.Time { return time.Date(2026, 3, 1, h, m, s, 0, time.UTC) }

	t.Run("running-dual-stack", func(t *testing.T) {
		o := observe(samplePod(t, "running-dual-stack"), wanted{
			labels:      []string{"app", "absent"},
			annotations: []string{"example.test/team"},
		})
		assert.False(t, o.over)
		assert.False(t, o.mirror)
		assert.Equal(t, "5f0c7d0a-6b1f-4a35-9f4e-4f6a1b0e7c11", o.record.Owner)
		assert.Equal(t, "shop", o.record.Identity.Namespace)
		assert.Equal(t, "web-7d4b9c-x2x5p", o.record.Identity.Name)
		assert.Equal(t, map[string]string{"app": "web"}, o.record.Identity.Labels)
		assert.Equal(t, map[string]string{"example.test/team": "checkout"}, o.record.Identity.Annotations)
		assert.Equal(t, addrs("10.9.0.5", "fd00::5"), o.record.Addresses)
		assert.True(t, utc(10, 0, 4).Equal(o.record.Begin), o.record.Begin)
	})
	t.Run("static-mirror", func(t *testing.T) {
		o := observe(samplePod(t, "static-mirror"), wanted{})
		assert.Equal(t, "9a6a1c7e-0c58-4f0e-8f3e-6d0c3a1a2b44", o.record.Owner)
		assert.Equal(t, "f5d1b6a0c3e94b5c8d7e6f5a4b3c2d1e", o.record.Identity.UID, "the UID that the node knows it by")
		assert.True(t, o.mirror)
		assert.True(t, o.record.HostNetwork)
		assert.Empty(t, o.record.Addresses)
		assert.Nil(t, o.record.Identity.Labels)
	})
	t.Run("without-sandbox-condition", func(t *testing.T) {
		o := observe(samplePod(t, "without-sandbox-condition"), wanted{})
		assert.True(t, utc(9, 0, 8).Equal(o.record.Begin), "the sidecar's start, not the restarted container's: %v", o.record.Begin)
	})
	t.Run("deleting", func(t *testing.T) {
		o := observe(samplePod(t, "deleting"), wanted{})
		assert.False(t, o.over, "one of its containers still runs")
		assert.Equal(t, addrs("10.9.0.8"), o.record.Addresses)
	})
	t.Run("succeeded", func(t *testing.T) {
		o := observe(samplePod(t, "succeeded"), wanted{})
		assert.True(t, o.over)
		assert.True(t, utc(10, 5, 31).Equal(o.overAt), o.overAt)
		assert.Empty(t, o.record.Addresses)
	})
}

func TestContainersGone(t *testing.T) {
	at := func(sec int64) corev1.ContainerStatus {
		s := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
		if sec > 0 {
			s.State.Terminated.FinishedAt.Time = time.Unix(sec, 0)
		}
		return s
	}
	runs := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	list := func(s ...corev1.ContainerStatus) []corev1.ContainerStatus { return s }
	for name, tt := range map[string]struct {
		status corev1.PodStatus
		gone   bool
		last   time.Time
	}{
		"no status yet":          {corev1.PodStatus{}, false, time.Time{}},
		"only init containers":   {corev1.PodStatus{InitContainerStatuses: list(at(5))}, false, time.Time{}},
		"one runs":               {corev1.PodStatus{ContainerStatuses: list(at(5), runs)}, false, time.Time{}},
		"one was never started":  {corev1.PodStatus{ContainerStatuses: list(at(5), waits)}, false, time.Time{}},
		"a sidecar runs":         {corev1.PodStatus{InitContainerStatuses: list(runs), ContainerStatuses: list(at(5))}, false, time.Time{}},
		"a debug container runs": {corev1.PodStatus{EphemeralContainerStatuses: list(runs), ContainerStatuses: list(at(5))}, false, time.Time{}},
		"all gone": {
			corev1.PodStatus{InitContainerStatuses: list(at(3)), ContainerStatuses: list(at(9), at(5))}, true, time.Unix(9, 0),
		},
		"all gone, one does not say when": {corev1.PodStatus{ContainerStatuses: list(at(9), at(0))}, true, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			gone, last := containersGone(&tt.status)
			assert.Equal(t, tt.gone, gone)
			assert.Equal(t, tt.last, last)
		})
	}
}

func FuzzObserve(f *testing.F) {
	samples, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, s := range samples {
		b, err := os.ReadFile(s)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pod := &corev1.Pod{}
		if json.Unmarshal(b, pod) != nil {
			return
		}
		o := observe(pod, wanted{labels: []string{"app"}, annotations: []string{"example.test/team"}})
		if o.record.Owner != string(pod.UID) {
			t.Fatalf("owner %q of pod %q", o.record.Owner, pod.UID)
		}
		if (o.over || o.record.HostNetwork) && len(o.record.Addresses) > 0 {
			t.Fatalf("addresses %v of a pod that owns none", o.record.Addresses)
		}
		if len(o.record.Addresses) > len(pod.Status.PodIPs) {
			t.Fatalf("%d addresses of %d", len(o.record.Addresses), len(pod.Status.PodIPs))
		}
		if len(o.record.Identity.Labels) > 1 || len(o.record.Identity.Annotations) > 1 {
			t.Fatal("labels or annotations that nobody asked for")
		}
		now := t0
		st := follow(podState{}, o, now)
		if st.begin.After(now) {
			t.Fatalf("begins at %v, which is still to come", st.begin)
		}
		if at := st.endedAt(o, now); at.After(now) || at.Before(st.begin) {
			t.Fatalf("ended at %v, having begun at %v, seen at %v", at, st.begin, now)
		}
	})
}
