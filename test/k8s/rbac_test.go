// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
)

const rbacManifest = "../../distribution/kubernetes/rbac.yaml"

// rbac is what the shipped manifest holds.
type rbac struct {
	account *corev1.ServiceAccount
	role    *rbacv1.ClusterRole
	binding *rbacv1.ClusterRoleBinding
}

func shippedRBAC(t *testing.T) rbac {
	t.Helper()
	b, err := os.ReadFile(rbacManifest)
	require.NoError(t, err)
	var r rbac
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		raw := runtime.RawExtension{}
		if err := docs.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		require.NoError(t, err)
		switch obj := obj.(type) {
		case *corev1.ServiceAccount:
			r.account = obj
		case *rbacv1.ClusterRole:
			r.role = obj
		case *rbacv1.ClusterRoleBinding:
			r.binding = obj
		default:
			require.Fail(t, "the test does not know what to do with", "%T", obj)
		}
	}
	require.NotNil(t, r.account)
	require.NotNil(t, r.role)
	require.NotNil(t, r.binding)
	return r
}

// apply creates the manifest's objects and returns a token of its account, which
// has its rights by then.
func (r rbac) apply(t *testing.T, client kubernetes.Interface) (token string) {
	t.Helper()
	createNamespace(t, client, r.account.Namespace)
	_, err := client.CoreV1().ServiceAccounts(r.account.Namespace).Create(t.Context(), r.account, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().ClusterRoles().Create(t.Context(), r.role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), r.binding, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := client.CoreV1().ServiceAccounts(r.account.Namespace).CreateToken(t.Context(), r.account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.awaitVerbs(t, client, r.role.Rules[0].Verbs)
	return answer.Status.Token
}

// setVerbs changes the role and waits until the API server goes by it.
func (r rbac) setVerbs(t *testing.T, client kubernetes.Interface, verbs ...string) {
	t.Helper()
	role := r.role.DeepCopy()
	role.Rules[0].Verbs = verbs
	_, err := client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	r.awaitVerbs(t, client, verbs)
}

// awaitVerbs waits until the account may do verbs with pods and nothing else. The
// API server authorises by a cache of its own, which a change reaches a little
// later: a watch that it allows before stays open.
func (r rbac) awaitVerbs(t *testing.T, client kubernetes.Interface, verbs []string) {
	t.Helper()
	account := "system:serviceaccount:" + r.account.Namespace + ":" + r.account.Name
	allowed := func(verb string) bool {
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               account,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "pods"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		return review.Status.Allowed
	}
	await(t, fmt.Sprintf("%s may %v pods and nothing else", account, verbs), func() bool {
		for _, verb := range []string{"get", "list", "watch"} {
			if allowed(verb) != slices.Contains(verbs, verb) {
				return false
			}
		}
		return true
	})
}

// TestLeastRights holds the shipped role to what it claims: it works in both
// scopes, and with one verb less it does not. On a server that streams lists,
// watch is the verb that everything needs; list is for the others.
func TestLeastRights(t *testing.T) {
	shipped := shippedRBAC(t)
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}},
		shipped.role.Rules)

	for _, server := range []struct {
		name   string
		flags  []string
		needed []string
	}{
		{"streaming lists", nil, []string{"watch"}},
		{"plain lists", []string{"--feature-gates=WatchList=false"}, []string{"list", "watch"}},
	} {
		t.Run(server.name, func(t *testing.T) {
			cluster := bed.Start(t, nil, server.flags...)
			client := cluster.Client(bed.Admin)
			createNamespace(t, client, namespace)
			k := kubelet{client, "node-1"}
			pod := must(t)(k.run(t.Context(), "web-0", "10.9.0.5"))
			elsewhere := must(t)(kubelet{client, "node-2"}.run(t.Context(), "web-1", "10.9.0.6"))
			token := shipped.apply(t, client)
			kubeconfig := cluster.Kubeconfig(token, cluster.Addr())

			t.Run("scope cluster", func(t *testing.T) {
				i := startIdentity(t, kubeconfig, nil)
				i.awaitSynced(t)
				assert.Equal(t, string(pod.UID), i.uid("10.9.0.5"))
				assert.Equal(t, string(elsewhere.UID), i.uid("10.9.0.6"))
				assert.Empty(t, i.warnings())
			})
			t.Run("scope node", func(t *testing.T) {
				i := startIdentity(t, kubeconfig, settings{"scope": "node", "node": "node-1"})
				i.awaitSynced(t)
				assert.Equal(t, string(pod.UID), i.uid("10.9.0.5"))
				assert.Equal(t, "unknown", i.uid("10.9.0.6"))
				assert.Empty(t, i.warnings())
			})
			for _, verb := range server.needed {
				t.Run("without "+verb, func(t *testing.T) {
					verbs := slices.DeleteFunc(slices.Clone(shipped.role.Rules[0].Verbs), func(v string) bool { return v == verb })
					shipped.setVerbs(t, client, verbs...)
					i := startIdentity(t, kubeconfig, nil)
					await(t, "the refusal", func() bool { return len(i.warnings()) > 0 })
					assert.Contains(t, i.warnings()[0], "not allowed to "+verb+` pods: grant the verbs "`+verb+`" on the resource "pods"`)
					assert.Contains(t, i.warnings()[0], "system:serviceaccount:otelcol-retina:otelcol-retina")
					assert.Equal(t, "unknown", i.uid("10.9.0.5"))

					shipped.setVerbs(t, client, shipped.role.Rules[0].Verbs...)
					await(t, "the pods, once granted", func() bool { return i.uid("10.9.0.5") == string(pod.UID) })
					refusals := slices.DeleteFunc(i.warnings(), func(w string) bool { return !bytes.Contains([]byte(w), []byte("not allowed")) })
					assert.Len(t, refusals, 1, "however often it was refused")
				})
			}
			t.Run("revoked while it works", func(t *testing.T) {
				i := startIdentity(t, kubeconfig, nil)
				i.awaitSynced(t)
				shipped.setVerbs(t, client, "get")
				// The server only asks again at the next request: end the watch.
				cluster.KillAPIServer()
				cluster.StartAPIServer()
				await(t, "the refusal", func() bool {
					return slices.ContainsFunc(i.warnings(), func(w string) bool {
						return bytes.Contains([]byte(w), []byte(`grant the verbs "list", "watch"`))
					})
				})
				assert.Equal(t, string(pod.UID), i.uid("10.9.0.5"), "what was known stays")
			})
		})
	}
}

// TestKubeletsOwnRights: a collector on the host may use the kubelet's
// credentials, which the API server lets see the pods of its own node only.
func TestKubeletsOwnRights(t *testing.T) {
	cluster := bed.Start(t, []bed.User{{Name: "system:node:node-1", Group: "system:nodes"}})
	client := cluster.Client(bed.Admin)
	createNamespace(t, client, namespace)
	pod := must(t)(kubelet{client, "node-1"}.run(t.Context(), "web-0", "10.9.0.5"))
	kubeconfig := cluster.Kubeconfig("system:node:node-1", cluster.Addr())

	t.Run("its own node", func(t *testing.T) {
		i := startIdentity(t, kubeconfig, settings{"scope": "node", "node": "node-1"})
		i.awaitSynced(t)
		assert.Equal(t, string(pod.UID), i.uid("10.9.0.5"))
	})
	t.Run("another node", func(t *testing.T) {
		i := startIdentity(t, kubeconfig, settings{"scope": "node", "node": "node-2"})
		await(t, "the refusal", func() bool { return len(i.warnings()) > 0 })
		assert.Contains(t, i.warnings()[0], "not allowed to list and watch pods")
	})
}
