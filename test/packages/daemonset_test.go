// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// checkDaemonSets holds what is between objects together, which no API server
// checks, and each DaemonSet to the least rights.
func checkDaemonSets(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	var accounts, classes []string
	configs := map[string]string{}
	for _, o := range objects {
		switch o.GetKind() {
		case "ServiceAccount":
			accounts = append(accounts, o.GetName())
		case "PriorityClass":
			classes = append(classes, o.GetName())
		case "ConfigMap":
			text, _, _ := unstructured.NestedString(o.Object, "data", "config.yaml")
			configs[o.GetName()] = text
		}
	}
	for _, o := range objects {
		switch o.GetKind() {
		case "ClusterRole":
			role := object[rbacv1.ClusterRole](t, objects, "ClusterRole", o.GetName())
			require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}, role.Rules)
		case "PriorityClass":
			require.False(t, object[schedulingv1.PriorityClass](t, objects, "PriorityClass", o.GetName()).GlobalDefault)
		case "ClusterRoleBinding":
			b := object[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", o.GetName())
			require.Equal(t, o.GetName(), b.RoleRef.Name)
			require.Contains(t, accounts, b.Subjects[0].Name)
		case "DaemonSet":
			ds := daemonSet(t, o)
			pod := ds.Spec.Template.Spec
			assert.True(t, labels.SelectorFromSet(ds.Spec.Selector.MatchLabels).Matches(labels.Set(ds.Spec.Template.Labels)))
			assert.Contains(t, accounts, pod.ServiceAccountName)
			assert.Contains(t, classes, pod.PriorityClassName)
			assert.True(t, pod.HostNetwork)
			c := pod.Containers[0]
			assert.NotEmpty(t, c.Resources.Requests.Cpu().String())
			assert.False(t, c.Resources.Limits.Memory().IsZero())
			checkGoMemLimit(t, c)
			if pod.NodeSelector["kubernetes.io/os"] == "windows" {
				checkWindows(t, pod, configs)
			} else {
				checkLinux(t, pod, configs)
			}
		}
	}
}

// checkGoMemLimit: Go collects garbage before the kernel ends the container, and
// leaves room for what is not Go's heap.
func checkGoMemLimit(t *testing.T, c corev1.Container) {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	require.NotEqual(t, -1, i, "no GOMEMLIMIT")
	limit, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[i].Value, "B")) // Go's MiB is Kubernetes' Mi
	require.NoError(t, err)
	assert.InDelta(t, 0.8, limit.AsApproximateFloat64()/c.Resources.Limits.Memory().AsApproximateFloat64(), 0.01)
}

func daemonSet(t *testing.T, o *unstructured.Unstructured) *appsv1.DaemonSet {
	t.Helper()
	return object[appsv1.DaemonSet](t, []*unstructured.Unstructured{o}, "DaemonSet", o.GetName())
}

// linuxPod is what the Linux DaemonSet makes of pods.
func linuxPod(t *testing.T, objects []*unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			if pod := daemonSet(t, o).Spec.Template.Spec; pod.NodeSelector["kubernetes.io/os"] == "linux" {
				return pod
			}
		}
	}
	require.Fail(t, "no Linux DaemonSet")
	return corev1.PodSpec{}
}

func checkLinux(t *testing.T, pod corev1.PodSpec, configs map[string]string) {
	t.Helper()
	c := pod.Containers[0]
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	assert.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "NET_BROADCAST"}}, c.SecurityContext.Capabilities)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	config := ""
	for _, v := range pod.Volumes {
		switch {
		case v.ConfigMap != nil:
			config = configs[v.ConfigMap.Name]
		case v.HostPath != nil:
			for _, m := range c.VolumeMounts {
				if m.Name == v.Name {
					assert.True(t, m.ReadOnly, m.Name)
					assert.Equal(t, v.HostPath.Path, m.MountPath)
					assert.Equal(t, corev1.MountPropagationHostToContainer, *m.MountPropagation)
				}
			}
		}
	}
	checkPorts(t, c, config)
}

func checkWindows(t *testing.T, pod corev1.PodSpec, configs map[string]string) {
	t.Helper()
	assert.True(t, *pod.SecurityContext.WindowsOptions.HostProcess)
	ref := pod.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef
	checkPorts(t, pod.Containers[0], configs[ref.Name])
}

// checkPorts finds where the probes and the scraper go in the configuration.
func checkPorts(t *testing.T, c corev1.Container, config string) {
	t.Helper()
	var parsed struct {
		Extensions map[string]struct {
			Endpoint string `json:"endpoint"`
		} `json:"extensions"`
		Exporters map[string]struct {
			Endpoint string `json:"endpoint"`
		} `json:"exporters"`
		Service struct {
			Telemetry struct {
				Metrics struct {
					Readers []struct {
						Pull struct {
							Exporter struct {
								Prometheus struct {
									Host string `json:"host"`
									Port int    `json:"port"`
								} `json:"prometheus"`
							} `json:"exporter"`
						} `json:"pull"`
					} `json:"readers"`
				} `json:"metrics"`
			} `json:"telemetry"`
		} `json:"service"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(config), &parsed))
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		require.NotNil(t, probe)
		assert.Regexp(t, "^(localhost|0\\.0\\.0\\.0):"+probe.HTTPGet.Port.String()+"$", parsed.Extensions["health_check"].Endpoint)
		assert.Equal(t, "127.0.0.1", probe.HTTPGet.Host)
	}
	// Both pages: the pods', and the collector's own, which the alerts need, too.
	assert.Equal(t, []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8889}, {Name: "own-metrics", ContainerPort: 8888}}, c.Ports)
	assert.Equal(t, "0.0.0.0:8889", parsed.Exporters["prometheus"].Endpoint)
	require.Len(t, parsed.Service.Telemetry.Metrics.Readers, 1)
	own := parsed.Service.Telemetry.Metrics.Readers[0].Pull.Exporter.Prometheus
	assert.Equal(t, "0.0.0.0:8888", fmt.Sprint(own.Host, ":", own.Port))
}
