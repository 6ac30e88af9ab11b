// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/otelcol-retina/otelcol-retina/test/k8s/bed"
	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// apiServer asks a real kube-apiserver what it would make of objects.
type apiServer struct {
	dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// allowPrivileged is set in every cluster whose nodes run system pods; without it
// no HostProcess container is accepted.
const allowPrivileged = "--allow-privileged=true"

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := bed.Start(t, nil, allowPrivileged).Config(bed.Admin)
	config.ContentType = "application/json"
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	known, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	return &apiServer{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(known))}
}

// apply is a server-side apply that refuses fields it doesn't know, as `kubectl
// apply --server-side --validate=strict` is. A dry run, but for namespaces:
// others need theirs to be there. Nothing admits service accounts here.
func (s *apiServer) apply(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	kind := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = s.Resource(mapping.Resource)
	if object.GetNamespace() != "" {
		resource = s.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	body, err := object.MarshalJSON()
	require.NoError(t, err)
	options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}
	if kind.Kind != "Namespace" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = resource.Patch(t.Context(), object.GetName(), "application/apply-patch+yaml", body, options)
	return err
}

func (s *apiServer) accepts(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	require.NotEmpty(t, objects)
	for _, o := range objects {
		assert.NoError(t, s.apply(t, o), "%s %s", o.GetKind(), o.GetName())
	}
}

// object is the object of that kind whose name begins so. A field
// that T doesn't know fails the test.
func object[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != kind || !strings.HasPrefix(o.GetName(), name) {
			continue
		}
		b, err := o.MarshalJSON()
		require.NoError(t, err)
		into := new(T)
		require.NoError(t, yaml.UnmarshalStrict(b, into))
		return into
	}
	require.Fail(t, "no such object", "%s %s", kind, name)
	return nil
}

// kustomized is what `kubectl kustomize distribution/kubernetes` prints.
var kustomized = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	dir, err := filepath.Abs(filepath.Join(repository, "distribution/kubernetes"))
	if err != nil {
		return nil, err
	}
	return kustomize(dir)
})

func kustomize(dir string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, r := range resources.Resources() {
		b, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(b); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// The README's overlay changes what it says it changes.
func TestOverlay(t *testing.T) {
	base, err := filepath.Abs(filepath.Join(repository, "distribution/kubernetes"))
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(base, "README.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(readme), "```yaml\n")
	require.True(t, found)
	example, _, _ := strings.Cut(after, "```")
	const remote = "github.com/otelcol-retina/otelcol-retina/distribution/kubernetes?ref=v0.1.0"
	require.Contains(t, example, remote)
	dir := t.TempDir()
	relative, err := filepath.Rel(dir, base)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.Replace(example, remote, relative, 1)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("mine: true\n"), 0o600))
	objects, err := kustomize(dir)
	require.NoError(t, err)
	require.Equal(t, "registry.example/otelcol-retina:0.1.0", linuxPod(t, objects).Containers[0].Image)
	changed := 0
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		if text, _, err := unstructured.NestedString(o.Object, "data", "config.yaml"); err == nil && text == "mine: true\n" {
			changed++
		}
	}
	require.Equal(t, 1, changed)
}

func kinds(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetKind()+" "+o.GetName())
	}
	return all
}

func TestKustomize(t *testing.T) {
	objects, err := kustomized()
	require.NoError(t, err)
	var generated string
	for _, o := range objects {
		if o.GetKind() == "ConfigMap" && o.GetName() != "otelcol-retina-windows" {
			generated = o.GetName()
		}
	}
	require.Regexp(t, "^otelcol-retina-[a-z0-9]{10}$", generated)
	require.ElementsMatch(t, []string{
		"Namespace otelcol-retina", "PriorityClass otelcol-retina",
		"ServiceAccount otelcol-retina", "ServiceAccount otelcol-retina-windows",
		"ClusterRole otelcol-retina-podidentity", "ClusterRoleBinding otelcol-retina-podidentity",
		"ConfigMap " + generated, "ConfigMap otelcol-retina-windows",
		"DaemonSet otelcol-retina", "DaemonSet otelcol-retina-windows",
	}, kinds(objects))
	checkDaemonSets(t, objects)

	server := startAPIServer(t)
	server.accepts(t, objects)

	// The check can fail.
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })
	bad := objects[i].DeepCopy()
	require.NoError(t, unstructured.SetNestedField(bad.Object, "x", "spec", "template", "spec", "noSuchField"))
	require.ErrorContains(t, server.apply(t, bad), "noSuchField")
}

// Each place has its own copy of a configuration, since neither kustomize nor a
// chart reads files from outside its directory.
func TestOneConfiguration(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(filepath.Join(repository, "distribution", path))
		require.NoError(t, err)
		return string(b)
	}
	for _, copied := range []string{"kubernetes/config.yaml", "helm/otelcol-retina/files/config.yaml"} {
		assert.Equal(t, read("config/kubernetes-node.yaml"), read(copied),
			"cp distribution/config/kubernetes-node.yaml distribution/%s", copied)
	}
	objects, err := kustomized()
	require.NoError(t, err)
	windows := object[corev1.ConfigMap](t, objects, "ConfigMap", "otelcol-retina-windows")
	assert.Equal(t, windows.Data["config.yaml"], read("helm/otelcol-retina/files/windows.yaml"))
}

// The collector takes the configurations as they are in the ConfigMaps.
func TestConfigurationsAreValid(t *testing.T) {
	objects, err := kustomized()
	require.NoError(t, err)
	for _, chart := range []map[string]any{nil, {"windows": map[string]any{"enabled": true}}} {
		objects = append(objects, rendered(t, chart)...)
	}
	n := 0
	t.Setenv("K8S_NODE_NAME", "node-1")
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		n++
		validate(t, o)
	}
	require.Equal(t, 5, n)
}

func validate(t *testing.T, configMap *unstructured.Unstructured) {
	t.Helper()
	text, _, _ := unstructured.NestedString(configMap.Object, "data", "config.yaml")
	require.NotEmpty(t, text)
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	run(t, repository, collector, "validate", "--config", path)
	require.NoError(t, testkit.CheckPages([]byte(run(t, repository, collector, "print-config", "--format=json", "--config", path))))
}
