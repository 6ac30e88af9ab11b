// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"hash/maphash"
	"net/netip"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// observation is all that is kept of a Pod object.
type observation struct {
	// record is the pod's. Its Begin is when the pod took its keys by its own
	// status, zero where the status doesn't say.
	record podidentity.Record
	// over says that the pod has ended: none of its containers runs, nor will,
	// unless it is a mirror's.
	over bool
	// overAt is when, by the pod's status; zero where that doesn't say.
	overAt time.Time
	// mirror says that the object stands for a static pod. A phase is final for
	// pods of the API server; a static pod's is not, and runs again under the same
	// mirror (kubernetes: pkg/kubelet/status/status_manager.go, TerminatePod).
	mirror bool
}

// GetObjectMeta lets a client-go store file the observation by its name.
func (o *observation) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: o.record.Identity.Namespace, Name: o.record.Identity.Name}
}

// wanted are the keys of the labels and annotations to keep.
type wanted struct{ labels, annotations []string }

// observe reduces a Pod to what identities are made of.
//
// Times in a pod's status are whole seconds, cut off (metav1.Time). A lease
// that is too short leaves a point unnamed; one that is too long names a point
// of the address's next or previous holder wrongly. So beginnings are rounded
// up and ends stay cut off.
func observe(pod *corev1.Pod, want wanted) *observation {
	o := &observation{record: podidentity.Record{
		Owner: string(pod.UID),
		Identity: podidentity.Identity{
			Name:        pod.Name,
			Namespace:   unique.Make(pod.Namespace).Value(),
			UID:         kubeletUID(pod),
			Labels:      pick(pod.Labels, want.labels),
			Annotations: pick(pod.Annotations, want.annotations),
		},
		HostNetwork: pod.Spec.HostNetwork,
	}}
	_, o.mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	gone, last := containersGone(&pod.Status)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed,
		pod.DeletionTimestamp != nil && gone:
		o.over = true
		if gone {
			o.overAt = last
		}
		return o
	case pod.Spec.HostNetwork:
		// Its status shows the node's addresses, which it does not own.
	default:
		o.record.Addresses = addresses(&pod.Status)
	}
	if len(o.record.Addresses) == 0 {
		// The UID is its only key, and its own since it was created.
		o.record.Begin = pod.CreationTimestamp.Time
	} else {
		o.record.Begin = networkSince(&pod.Status)
	}
	return o
}

// kubeletUID returns the UID by which the node knows the pod. For a static pod
// the API server only has a mirror with a UID of its own; the kubelet and the
// container runtime use the one that the mirror's annotation carries
// (kubernetes: pkg/kubelet/pod/mirror_client.go, pkg/kubelet/config/common.go).
func kubeletUID(pod *corev1.Pod) string {
	if uid := pod.Annotations[corev1.MirrorPodAnnotationKey]; uid != "" {
		return uid
	}
	return string(pod.UID)
}

// pick returns the entries of m that keys name, nil if there are none.
func pick(m map[string]string, keys []string) map[string]string {
	var picked map[string]string
	for _, k := range keys {
		v, ok := m[k]
		if !ok {
			continue
		}
		if picked == nil {
			picked = make(map[string]string, len(keys))
		}
		picked[k] = v
	}
	return picked
}

// addresses returns the addresses that the pod holds. A pod whose sandbox is
// not ready holds none, although its status still lists those of the last one.
func addresses(status *corev1.PodStatus) []netip.Addr {
	if c := readyToStart(status); c != nil && c.Status == corev1.ConditionFalse {
		return nil
	}
	if len(status.PodIPs) == 0 {
		return nil
	}
	addrs := make([]netip.Addr, 0, len(status.PodIPs))
	for _, ip := range status.PodIPs {
		// The API server validates addresses; what it let through all the same
		// can't be compared with anything.
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// networkSince returns when the pod got its network by its own status, zero if
// the status doesn't say: the condition that the kubelet sets when the sandbox
// has its addresses (Kubernetes 1.29), else the start of the first of the
// containers that now run in it.
func networkSince(status *corev1.PodStatus) time.Time {
	if c := readyToStart(status); c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Add(time.Second)
	}
	var first time.Time
	for _, statuses := range [...][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			r := statuses[i].State.Running
			if r != nil && !r.StartedAt.IsZero() && (first.IsZero() || r.StartedAt.Time.Before(first)) {
				first = r.StartedAt.Time
			}
		}
	}
	if first.IsZero() {
		return first
	}
	return first.Add(time.Second)
}

func readyToStart(status *corev1.PodStatus) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == corev1.PodReadyToStartContainers {
			return &status.Conditions[i]
		}
	}
	return nil
}

// containersGone reports whether the pod's containers have all terminated, and
// when the last one did, zero if one doesn't say.
func containersGone(status *corev1.PodStatus) (gone bool, last time.Time) {
	if len(status.ContainerStatuses) == 0 {
		return false, time.Time{}
	}
	known := true
	for _, statuses := range [...][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			t := statuses[i].State.Terminated
			if t == nil {
				return false, time.Time{}
			}
			known = known && !t.FinishedAt.IsZero()
			if t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	if !known {
		return true, time.Time{}
	}
	return true, last
}

var addrSeed = maphash.MakeSeed()

// addressSum tells one set of addresses from another; 0 is no address.
func addressSum(addrs []netip.Addr) uint64 {
	var sum uint64
	for _, a := range addrs {
		sum = sum*31 + maphash.Comparable(addrSeed, a)
	}
	return sum
}
