// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// startPod runs a pod's collector as the kubelet would ask the runtime to, and
// returns its process. It has the image's own configuration and not the pod's:
// no API server is beside this runtime.
func (n *node) startPod(t *testing.T, pod corev1.PodSpec) int {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+n.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	client := cri.NewRuntimeServiceClient(conn)
	ctx := context.WithoutCancel(t.Context())

	onNode := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}
	sandbox := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "otelcol-retina", Namespace: "otelcol-retina", Uid: "collector"},
		LogDirectory: t.TempDir(),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    "/cribed" + strings.ReplaceAll(n.dir, "/", "-"), // down.sh empties it
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: onNode},
		},
	}
	s, err := client.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: sandbox})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: s.PodSandboxId})
		require.NoError(t, err)
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(sandbox.LogDirectory, "log"))
			t.Logf("the container's log:\n%s", log)
		}
	})

	c := pod.Containers[0]
	right := c.SecurityContext
	security := &cri.LinuxContainerSecurityContext{
		NamespaceOptions: onNode,
		RunAsUser:        &cri.Int64Value{Value: *right.RunAsUser},
		RunAsGroup:       &cri.Int64Value{Value: *right.RunAsGroup},
		ReadonlyRootfs:   *right.ReadOnlyRootFilesystem,
		NoNewPrivs:       !*right.AllowPrivilegeEscalation,
		Capabilities:     &cri.Capability{},
	}
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	security.Seccomp = &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
	for _, capability := range right.Capabilities.Drop {
		security.Capabilities.DropCapabilities = append(security.Capabilities.DropCapabilities, string(capability))
	}
	for _, capability := range right.Capabilities.Add {
		security.Capabilities.AddCapabilities = append(security.Capabilities.AddCapabilities, string(capability))
	}
	made, err := client.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId:  s.PodSandboxId,
		SandboxConfig: sandbox,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: c.Name},
			Image:    &cri.ImageSpec{Image: c.Image},
			// The image's own configuration, and the page of names.
			Args:    []string{"--config=/etc/otelcol-retina/config.yaml", "--config=yaml:extensions::podidentity::page::endpoint: localhost:8899"},
			LogPath: "log",
			Mounts:  hostMounts(pod),
			Linux: &cri.LinuxContainerConfig{
				Resources:       &cri.LinuxContainerResources{MemoryLimitInBytes: c.Resources.Limits.Memory().Value()},
				SecurityContext: security,
			},
		},
	})
	require.NoError(t, err)
	_, err = client.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId})
	require.NoError(t, err)
	status, err := client.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: made.ContainerId, Verbose: true})
	require.NoError(t, err)
	var info struct{ PID int }
	require.NoError(t, json.Unmarshal([]byte(status.Info["info"]), &info))
	require.NotZero(t, info.PID)
	return info.PID
}

func hostMounts(pod corev1.PodSpec) []*cri.Mount {
	var mounts []*cri.Mount
	for _, v := range pod.Volumes {
		for _, m := range pod.Containers[0].VolumeMounts {
			if v.HostPath != nil && m.Name == v.Name {
				mounts = append(mounts, &cri.Mount{
					HostPath: v.HostPath.Path, ContainerPath: m.MountPath, Readonly: m.ReadOnly,
					Propagation: cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
				})
			}
		}
	}
	return mounts
}
