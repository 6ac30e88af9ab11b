// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const namespace = "shop"

func createNamespace(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

// kubelet makes and ends pods as a kubelet would report them.
type kubelet struct {
	client kubernetes.Interface
	node   string
}

// create creates a pod without a status.
func (k kubelet) create(ctx context.Context, name string, change func(*corev1.Pod)) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "load", "pod-template-hash": "abc123"}},
		Spec: corev1.PodSpec{
			NodeName:   k.node,
			Containers: []corev1.Container{{Name: "main", Image: "example.test/app:1"}},
		},
	}
	if change != nil {
		change(pod)
	}
	return k.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// run creates a pod that runs with the given addresses.
func (k kubelet) run(ctx context.Context, name string, addrs ...string) (*corev1.Pod, error) {
	pod, err := k.create(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return k.report(ctx, pod, func(s *corev1.PodStatus) { runs(s, addrs...) })
}

// runs sets the status of a running pod.
func runs(s *corev1.PodStatus, addrs ...string) {
	now := metav1.Now()
	s.Phase = corev1.PodRunning
	s.PodIP, s.PodIPs, s.HostIP = addrs[0], nil, "192.0.2.1"
	for _, a := range addrs {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: a})
	}
	s.StartTime = &now
	s.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}
	s.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "example.test/app:1", ImageID: "example.test/app@sha256:00",
		ContainerID: "containerd://00", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
}

// stopped sets the container's end into a status.
func stopped(s *corev1.PodStatus) {
	s.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), Reason: "Completed"},
	}
	s.ContainerStatuses[0].Ready = false
}

func (k kubelet) report(ctx context.Context, pod *corev1.Pod, change func(*corev1.PodStatus)) (*corev1.Pod, error) {
	change(&pod.Status)
	pod, err := k.client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("report the status of a pod: %w", err)
	}
	return pod, nil
}

// remove deletes a pod object for good.
func (k kubelet) remove(ctx context.Context, name string) error {
	return k.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// terminate asks for a pod's end as kubectl delete does: the object stays until
// the kubelet removes it.
func (k kubelet) terminate(ctx context.Context, name string) error {
	return k.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// addresses are those of pod i, in both families.
func addresses(i int) (v4, v6 string) {
	i++
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(),
		netip.AddrFrom16([16]byte{0: 0xfd, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}).String()
}

func must(t testing.TB) func(*corev1.Pod, error) *corev1.Pod {
	return func(p *corev1.Pod, err error) *corev1.Pod {
		t.Helper()
		require.NoError(t, err)
		return p
	}
}
