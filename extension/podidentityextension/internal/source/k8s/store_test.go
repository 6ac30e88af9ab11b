// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// t0 is the time of a test's first event.
var t0 = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// life is a store with a clock that the test sets.
type life struct {
	*podStore
	sink *recordingSink
	time time.Time
}

func newLife() *life {
	l := &life{sink: newRecordingSink(), time: t0}
	l.podStore = newPodStore(l.sink, wanted{}, func() time.Time { return l.time })
	return l
}

// after moves the clock to d after t0.
func (l *life) after(d time.Duration) { l.time = t0.Add(d) }

// running returns a pod whose network the kubelet reported at t0 - 1 min.
func running(name, uid string, ips ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(uid),
			CreationTimestamp: metav1.NewTime(t0.Add(-2 * time.Minute)),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(t0.Add(-time.Minute)),
			}},
			ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(t0.Add(-30 * time.Second))}},
			}},
		},
	}
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		pod.Status.PodIP = ips[0]
	}
	return pod
}

// with returns a changed copy: what a store was given stays as it was.
func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	pod = pod.DeepCopy()
	change(pod)
	return pod
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(t0)) }

func terminated(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range p.Status.ContainerStatuses {
			p.Status.ContainerStatuses[i].State = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at)},
			}
		}
	}
}

func addrs(s ...string) []netip.Addr {
	var as []netip.Addr
	for _, a := range s {
		as = append(as, netip.MustParseAddr(a))
	}
	return as
}

func TestEveryAddressOfAPodIsReported(t *testing.T) {
	l := newLife()
	require.NoError(t, l.Add(running("web-0", "a", "10.9.0.5", "fd00::5")))
	r := l.sink.live["a"]
	assert.Equal(t, "a", r.Owner)
	assert.Equal(t, "shop", r.Identity.Namespace)
	assert.Equal(t, "web-0", r.Identity.Name)
	assert.Equal(t, "a", r.Identity.UID)
	assert.Equal(t, addrs("10.9.0.5", "fd00::5"), r.Addresses)
	assert.Equal(t, t0.Add(-time.Minute+time.Second), r.Begin)
}

func TestHostNetworkPodOwnsNoAddress(t *testing.T) {
	l := newLife()
	require.NoError(t, l.Add(with(running("proxy", "a", "192.0.2.1"), func(p *corev1.Pod) { p.Spec.HostNetwork = true })))
	r := l.sink.live["a"]
	assert.True(t, r.HostNetwork)
	assert.Empty(t, r.Addresses)
	assert.Equal(t, "a", r.Identity.UID)
	assert.Equal(t, t0.Add(-2*time.Minute), r.Begin, "its UID was its own from its creation on")
}

func TestDelayedDeleteOfTheOldOwnerEndsOnlyTheOldOwner(t *testing.T) {
	l := newLife()
	old := running("web-0", "a", "10.9.0.5")
	require.NoError(t, l.Add(old))
	require.NoError(t, l.Update(running("web-0", "b", "10.9.0.5")))
	require.NoError(t, l.Delete(old))
	assert.Equal(t, []string{"b"}, l.sink.owners())
	for _, e := range l.sink.ends {
		assert.Equal(t, "a", e.owner)
	}
	require.NoError(t, l.Delete(running("web-0", "b", "10.9.0.5")))
	assert.Empty(t, l.sink.owners())
	assert.Empty(t, l.pods)
}

func TestSameNameWithANewUIDIsANewPod(t *testing.T) {
	l := newLife()
	require.NoError(t, l.Add(running("web-0", "a", "10.9.0.5")))
	l.after(5 * time.Second)
	require.NoError(t, l.Update(running("web-0", "b", "10.9.0.6")))
	assert.Equal(t, []ending{{"a", t0.Add(5 * time.Second), true}}, l.sink.ends)
	assert.Equal(t, []string{"b"}, l.sink.owners())
}

func TestSameNameWithANewUIDInAList(t *testing.T) {
	l := newLife()
	require.NoError(t, l.Replace([]any{running("web-0", "a", "10.9.0.5")}, "1"))
	l.after(5 * time.Second)
	require.NoError(t, l.Replace([]any{running("web-0", "b", "10.9.0.6")}, "9"))
	assert.Equal(t, []ending{{"a", t0, false}}, l.sink.ends)
	assert.Equal(t, []string{"b"}, l.sink.owners())
}

func TestCompletedPodEndsWhenItsContainersDid(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			l := newLife()
			pod := running("job-0", "a", "10.9.0.5")
			require.NoError(t, l.Add(pod))
			l.after(10 * time.Second)
			done := with(pod, func(p *corev1.Pod) {
				p.Status.Phase = phase
				terminated(t0.Add(7 * time.Second))(p)
			})
			require.NoError(t, l.Update(done))
			want := []ending{{"a", t0.Add(7 * time.Second), true}}
			assert.Equal(t, want, l.sink.ends)

			l.after(20 * time.Second)
			require.NoError(t, l.Update(done))
			require.NoError(t, l.Delete(done))
			assert.Equal(t, want, l.sink.ends, "an end is reported once")
			assert.Empty(t, l.sink.owners())
			assert.Empty(t, l.pods)
		})
	}
}

func TestCompletedPodOfTheFirstListHoldsNothing(t *testing.T) {
	l := newLife()
	done := with(running("job-0", "a", "10.9.0.5"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	require.NoError(t, l.Replace([]any{done, running("web-0", "b", "10.9.0.5")}, "1"))
	assert.Equal(t, []string{"b"}, l.sink.owners())
	assert.Empty(t, l.sink.ends)
}

func TestPodThatCompletedUnwatchedEndsWhenItDid(t *testing.T) {
	l := newLife()
	pod := running("job-0", "a", "10.9.0.5")
	require.NoError(t, l.Add(pod))
	l.after(time.Minute)
	require.NoError(t, l.Replace([]any{with(pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		terminated(t0.Add(7 * time.Second))(p)
	})}, "9"))
	assert.Equal(t, []ending{{"a", t0.Add(7 * time.Second), true}}, l.sink.ends)
}

func TestEndedPodStaysEnded(t *testing.T) {
	l := newLife()
	pod := running("job-0", "a", "10.9.0.5")
	require.NoError(t, l.Add(pod))
	require.NoError(t, l.Update(with(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })))
	require.NoError(t, l.Update(pod))
	assert.Empty(t, l.sink.owners())
	require.NoError(t, l.Replace([]any{pod}, "9"))
	assert.Empty(t, l.sink.owners())
	assert.Len(t, l.sink.ends, 1)
}

func TestStaticPodThatRunsAgainIsKnownAgain(t *testing.T) {
	mirror := with(running("proxy-node-1", "a", "10.9.0.5"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "f5d1b6a0"}
	})
	failed := with(mirror, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		terminated(t0.Add(7 * time.Second))(p)
	})
	refused := with(mirror, func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed} }) // by admission: no word on when
	restarted := with(mirror, func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(t0.Add(14 * time.Second))
	})
	onHost := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	waiting := with(mirror, func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} })
	for name, tt := range map[string]struct {
		lives []*corev1.Pod // at t0, and every 10 s from then on
		begin time.Duration // of what the last one holds
	}{
		"in a new sandbox":                 {[]*corev1.Pod{mirror, failed, restarted}, 15 * time.Second},
		"first seen failed":                {[]*corev1.Pod{failed, failed, restarted}, 15 * time.Second},
		"by the word of its earlier life":  {[]*corev1.Pod{mirror, failed, mirror}, 20 * time.Second},
		"where no word says when it ended": {[]*corev1.Pod{mirror, refused, mirror}, 20 * time.Second},
		"with an address only later":       {[]*corev1.Pod{mirror, failed, waiting, mirror}, 30 * time.Second},
		"after it failed twice":            {[]*corev1.Pod{mirror, failed, failed, restarted}, 15 * time.Second},
		"and goes on":                      {[]*corev1.Pod{mirror, failed, restarted, mirror}, 15 * time.Second},
		"on the host's network":            {[]*corev1.Pod{with(mirror, onHost), with(failed, onHost), with(restarted, onHost)}, 20 * time.Second},
	} {
		follow := func(t *testing.T, take func(*life, *corev1.Pod) error) {
			l := newLife()
			for i, pod := range tt.lives {
				l.after(time.Duration(i) * 10 * time.Second)
				require.NoError(t, take(l, pod))
				if pod.Status.Phase == corev1.PodFailed {
					assert.Empty(t, l.sink.owners())
				} else {
					assert.Equal(t, []string{"a"}, l.sink.owners())
				}
			}
			assert.Equal(t, t0.Add(tt.begin), l.sink.live["a"].Begin)
		}
		t.Run(name, func(t *testing.T) {
			follow(t, func(l *life, p *corev1.Pod) error { return l.Update(p) })
		})
		t.Run(name+", in lists", func(t *testing.T) {
			follow(t, func(l *life, p *corev1.Pod) error { return l.Replace([]any{p}, "1") })
		})
	}
}

func TestDeletingPodHoldsItsAddressUntilItsContainersAreGone(t *testing.T) {
	l := newLife()
	pod := with(running("web-0", "a", "10.9.0.5"), deleting)
	require.NoError(t, l.Add(pod))
	assert.Equal(t, addrs("10.9.0.5"), l.sink.live["a"].Addresses)

	l.after(9 * time.Second)
	gone := with(pod, terminated(t0.Add(8*time.Second)))
	require.NoError(t, l.Update(gone))
	assert.Equal(t, []ending{{"a", t0.Add(8 * time.Second), true}}, l.sink.ends)
	require.NoError(t, l.Delete(gone))
	assert.Len(t, l.sink.ends, 1)
}

func TestRestartingContainersDoNotEndAPod(t *testing.T) {
	l := newLife()
	pod := running("web-0", "a", "10.9.0.5")
	require.NoError(t, l.Add(pod))
	require.NoError(t, l.Update(with(pod, terminated(t0))))
	assert.Equal(t, []string{"a"}, l.sink.owners())
}

func TestDeletedPodEndsNowUnlessItSaysWhen(t *testing.T) {
	l := newLife()
	a, b := running("a", "a", "10.9.0.5"), running("b", "b", "10.9.0.6")
	require.NoError(t, l.Add(a))
	require.NoError(t, l.Add(b))
	l.after(9 * time.Second)
	require.NoError(t, l.Delete(a))
	require.NoError(t, l.Delete(with(with(b, deleting), terminated(t0.Add(3*time.Second)))))
	assert.Equal(t, []ending{
		{"a", t0.Add(9 * time.Second), true},
		{"b", t0.Add(3 * time.Second), true},
	}, l.sink.ends)
	assert.Empty(t, l.pods)
}

func TestTombstoneInPlaceOfADelete(t *testing.T) {
	l := newLife()
	a, b := running("a", "a", "10.9.0.5"), running("b", "b", "10.9.0.6")
	require.NoError(t, l.Add(a))
	require.NoError(t, l.Add(b))
	require.NoError(t, l.Delete(cache.DeletedFinalStateUnknown{Key: "shop/a", Obj: a}))
	require.NoError(t, l.Delete(cache.DeletedFinalStateUnknown{Key: "shop/b"}))
	require.NoError(t, l.Delete(cache.DeletedFinalStateUnknown{Key: "shop/never-seen"}))
	assert.Equal(t, []ending{{"a", t0, true}, {"b", t0, true}}, l.sink.ends)
	require.Error(t, l.Delete(cache.DeletedFinalStateUnknown{Key: "a/b/c"}))
}

func TestPodsThatAListLeavesOutEndedWhenTheWatchWasLastHeardOf(t *testing.T) {
	l := newLife()
	a, b := running("a", "a", "10.9.0.5"), running("b", "b", "10.9.0.6")
	require.NoError(t, l.Replace([]any{a, b}, "1"))
	l.after(10 * time.Second)
	require.NoError(t, l.Bookmark("5"))
	l.after(time.Minute)
	require.NoError(t, l.Replace([]any{b}, "9"))
	assert.Equal(t, []ending{{"a", t0.Add(10 * time.Second), false}}, l.sink.ends)
	assert.Equal(t, []string{"b"}, l.sink.owners())
	assert.Len(t, l.pods, 1)
}

func TestPodThatLivedForLessThanASecondEndsNotBeforeItBegan(t *testing.T) {
	l := newLife()
	pod := with(running("a", "a", "10.9.0.5"), func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(t0)
	})
	l.after(600 * time.Millisecond)
	require.NoError(t, l.Add(pod))
	l.after(900 * time.Millisecond)
	require.NoError(t, l.Delete(with(with(pod, deleting), terminated(t0))))
	assert.Equal(t, []ending{{"a", t0.Add(600 * time.Millisecond), true}}, l.sink.ends)
}

func TestClockBehindTheNodesEndsNoLeaseInTheFuture(t *testing.T) {
	l := newLife()
	pod := with(running("a", "a", "10.9.0.5"), deleting)
	require.NoError(t, l.Add(pod))
	require.NoError(t, l.Update(with(pod, terminated(t0.Add(time.Hour)))))
	assert.Equal(t, []ending{{"a", t0, true}}, l.sink.ends)
}

func TestLeaseHasOneBeginning(t *testing.T) {
	silent := func(p *corev1.Pod) { p.Status.Conditions, p.Status.ContainerStatuses = nil, nil }
	sandboxAt := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at) }
	}
	pod := running("a", "a", "10.9.0.5")
	for name, steps := range map[string][]struct {
		at    time.Duration
		pod   *corev1.Pod
		begin time.Time
	}{
		"the kubelet's word, rounded up": {
			{0, pod, t0.Add(-59 * time.Second)},
		},
		"first seen, where the status does not say": {
			{0, with(pod, silent), t0},
			{3 * time.Second, with(pod, silent), t0},
		},
		"a later word does not move it": {
			{0, with(pod, silent), t0},
			{3 * time.Second, pod, t0},
		},
		"a word from the future counts as now": {
			{0, with(pod, sandboxAt(t0)), t0},
			{3 * time.Second, with(pod, sandboxAt(t0)), t0},
		},
		"no address yet, then one": {
			{0, with(pod, func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }), t0.Add(-2 * time.Minute)},
			{3 * time.Second, pod, t0.Add(-59 * time.Second)},
		},
		"a new sandbox has a beginning of its own": {
			{0, pod, t0.Add(-59 * time.Second)},
			{9 * time.Second, with(running("a", "a", "10.9.0.7"), sandboxAt(t0.Add(4*time.Second))), t0.Add(5 * time.Second)},
		},
		"new addresses and the old word": {
			{0, pod, t0.Add(-59 * time.Second)},
			{9 * time.Second, running("a", "a", "10.9.0.7"), t0.Add(9 * time.Second)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife()
			for _, s := range steps {
				l.after(s.at)
				require.NoError(t, l.Update(s.pod))
				assert.Equal(t, s.begin, l.sink.live["a"].Begin)
			}
			require.NoError(t, l.Replace([]any{steps[len(steps)-1].pod}, "9"))
			assert.Equal(t, steps[len(steps)-1].begin, l.sink.live["a"].Begin, "a list changes nothing")
		})
	}
}

func TestSandboxThatIsNotReadyHoldsNoAddress(t *testing.T) {
	l := newLife()
	pod := running("a", "a", "10.9.0.5")
	require.NoError(t, l.Add(pod))
	require.NoError(t, l.Update(with(pod, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })))
	assert.Empty(t, l.sink.live["a"].Addresses)
	assert.Equal(t, []string{"a"}, l.sink.owners(), "the pod itself lives")
}

func TestBookmarkConfirmsTheSource(t *testing.T) {
	l := newLife()
	require.NoError(t, l.Bookmark("5"))
	assert.Equal(t, 1, l.sink.synced)
}

func TestWhatIsNoPodIsRefused(t *testing.T) {
	l := newLife()
	require.ErrorContains(t, l.Add(&corev1.Node{}), "*v1.Node")
	require.Error(t, l.Replace([]any{&corev1.Node{}}, "1"))
	require.Error(t, l.Delete(&corev1.Node{}))
	assert.Zero(t, l.sink.lists)
}
