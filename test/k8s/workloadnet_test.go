// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
)

// TestPodCIDRs: workloadnet takes its prefixes from its node, with the right to
// get that node and no other, as soon as the node has them.
func TestPodCIDRs(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	cluster := bed.Start(t, []bed.User{{Name: "collector", Group: "collectors"}})
	admin := cluster.Client(bed.Admin)
	for _, name := range []string{"node-1", "node-2"} {
		_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "workloadnet"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{"node-1"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Setenv("KUBECONFIG", cluster.Kubeconfig("collector", cluster.Addr()))
	client := startWorkloadnet(t)

	unavailable := func(why string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := client.Status(t.Context(), &pb.StatusRequest{})
			assert.Equal(c, codes.Unavailable, status.Code(err))
			assert.ErrorContains(c, err, why)
		}, time.Minute, 50*time.Millisecond)
	}
	unavailable(`get node "node-1": nodes "node-1" is forbidden`)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "workloadnet"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "workloadnet"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "collector", APIGroup: rbacv1.GroupName}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	unavailable(`node "node-1": it has no podCIDR yet`)

	patch := func(node, cidrs string) {
		t.Helper()
		_, err := admin.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(`{"spec":{"podCIDRs":`+cidrs+`}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch("node-2", `["10.244.2.0/24"]`)
	patch("node-1", `["10.244.1.0/24","fd00:10:244:1::/64"]`)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		answer, err := client.Status(t.Context(), &pb.StatusRequest{})
		if assert.NoError(c, err) {
			assert.Equal(c, []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, answer.Prefixes)
			assert.Equal(c, uint32(253), answer.Free)
		}
	}, time.Minute, 50*time.Millisecond)
}

// inOwnNetwork runs the test again in a network namespace of its own, where the
// extension may change what it likes, and says whether this is that run.
func inOwnNetwork(t *testing.T) bool {
	const env = "WORKLOADNET_TEST_IN_NETNS"
	if os.Getenv(env) != "" {
		out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput()
		require.NoError(t, err, "%s", out)
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: workloadnet needs CAP_NET_ADMIN, and the test a network namespace")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}

// extensions are a Collector with the extensions that workloadnet needs.
type extensions map[component.ID]component.Component

func (h extensions) GetExtensions() map[component.ID]component.Component { return h }

func startWorkloadnet(t *testing.T) pb.WorkloadNetworkingClient {
	t.Helper()
	dir, err := os.MkdirTemp("", "wn") // t.TempDir may be longer than a socket's path can be
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	endpoint := "unix://" + filepath.Join(dir, "s", "workloadnet.sock")
	h := extensions{}
	start := func(factory extension.Factory, config map[string]any) {
		cfg := factory.CreateDefaultConfig()
		require.NoError(t, confmap.NewFromStringMap(config).Unmarshal(cfg))
		require.NoError(t, confmap.Validate(cfg))
		set := extensiontest.NewNopSettings(factory.Type())
		set.ID = component.NewID(factory.Type())
		ext, err := factory.Create(t.Context(), set, cfg)
		require.NoError(t, err)
		require.NoError(t, ext.Start(t.Context(), h))
		t.Cleanup(func() { assert.NoError(t, ext.Shutdown(context.WithoutCancel(t.Context()))) })
		h[set.ID] = ext
	}
	start(filestorage.NewFactory(), map[string]any{"directory": dir})
	start(podidentityextension.NewFactory(), nil)
	start(workloadnetextension.NewFactory(), map[string]any{
		"endpoint": endpoint, "storage": "file_storage",
		"k8s": map[string]any{"auth_type": "kubeConfig", "node": "node-1"},
	})
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewWorkloadNetworkingClient(conn)
}
