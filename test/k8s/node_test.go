// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
)

// TestNode: a collector with the shipped kubernetes-node.yaml and the shipped rights,
// on a node without a container runtime, shows the counters of a live interface with
// the name and labels that the API server gives its address, until the pod is gone.
func TestNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	c := bed.Start(t, nil)
	admin := c.Client(bed.Admin)
	createNamespace(t, admin, namespace)
	k := kubelet{client: admin, node: "node-1"}
	must(t)(k.run(t.Context(), "web-0", "10.99.1.10"))
	// A pod of another node with an address of this one's: none of our business.
	must(t)(kubelet{client: admin, node: "node-2"}.run(t.Context(), "db-0", "10.99.1.11"))
	makeInterface(t, "retina-k8s-web", "10.99.1.10")
	makeInterface(t, "retina-k8s-db", "10.99.1.11")

	page := freeAddress(t)
	startCollector(t, "kubernetes-node.yaml", fmt.Sprintf(`
		receivers: {hnsstats: {collection_interval: 200ms, initial_delay: 0s}},
		exporters: {prometheus: {endpoint: %q, metric_expiration: 1s}},
		extensions: {health_check: {endpoint: "127.0.0.1:0"}}`, page),
		"KUBECONFIG="+c.Kubeconfig(shippedRBAC(t).apply(t, admin), c.Addr()), "K8S_NODE_NAME=node-1")

	// named says what of the wanted is not on the page, which names nobody else.
	named := func(want ...string) func() string {
		return func() string {
			response, err := http.Get("http://" + page + "/metrics")
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err.Error()
			}
			lines := 0
			for line := range strings.Lines(string(body)) {
				if !strings.HasPrefix(line, "k8s_pod_network_io_bytes_total{") {
					continue
				}
				lines++
				for _, w := range want {
					if !strings.Contains(line, w) {
						return fmt.Sprintf("no %s in %s", w, line)
					}
				}
			}
			if (lines > 0) != (len(want) > 0) {
				return fmt.Sprintf("%d lines, want %v, in\n%s", lines, want, body)
			}
			return ""
		}
	}
	awaitNone(t, named(`k8s_pod_name="web-0"`, `k8s_namespace_name="shop"`, `k8s_pod_label_app="load"`, `k8s_pod_ip="10.99.1.10"`))

	_, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), "web-0", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"shop-front"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	awaitNone(t, named(`k8s_pod_name="web-0"`, `k8s_pod_label_app="shop-front"`))

	require.NoError(t, k.remove(t.Context(), "web-0"))
	awaitNone(t, named())
}

// makeInterface makes a network namespace with a pod's interface in it, as a CNI
// plugin does. No traffic passes but the neighbour discovery of the link itself.
func makeInterface(t *testing.T, name, address string) {
	t.Helper()
	ip := func(args ...string) {
		out, err := exec.Command("ip", args...).CombinedOutput()
		require.NoError(t, err, "ip %v: %s", args, out)
	}
	ip("netns", "add", name)
	t.Cleanup(func() { ip("netns", "delete", name) }) // takes both ends of the link away
	ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
	ip("-n", name, "address", "add", address+"/32", "dev", "eth0")
	ip("-n", name, "link", "set", "eth0", "up")
	ip("link", "set", name, "up")
}
