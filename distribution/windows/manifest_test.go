// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package windows tests what a Windows user installs, as far as that can be done
// without Windows.
package windows

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// The manifest has no field that Kubernetes doesn't know, and its configuration is
// the shipped one with pages that can be read from outside of the node, and a
// health check where the probes ask.
func TestManifest(t *testing.T) {
	var (
		account   corev1.ServiceAccount
		config    corev1.ConfigMap
		daemonset appsv1.DaemonSet
	)
	documents := bytes.Split(read(t, "daemonset.yaml"), []byte("\n---\n"))
	require.Len(t, documents, 3)
	for i, object := range []any{&account, &config, &daemonset} {
		require.NoError(t, yaml.UnmarshalStrict(documents[i], object))
	}

	pod := daemonset.Spec.Template.Spec
	require.Equal(t, account.Namespace, daemonset.Namespace)
	require.Equal(t, account.Name, pod.ServiceAccountName)
	for label, value := range daemonset.Spec.Selector.MatchLabels {
		require.Equal(t, value, daemonset.Spec.Template.Labels[label])
	}
	require.True(t, *pod.SecurityContext.WindowsOptions.HostProcess)
	require.True(t, pod.HostNetwork, "or the API server refuses a HostProcess pod")
	key := pod.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef
	require.Equal(t, config.Name, key.Name)

	var shipped, inCluster map[string]any
	require.NoError(t, yaml.UnmarshalStrict(read(t, "config.yaml"), &shipped))
	require.NoError(t, yaml.UnmarshalStrict([]byte(config.Data[key.Key]), &inCluster))
	page := func(c map[string]any) map[string]any {
		return c["exporters"].(map[string]any)["prometheus"].(map[string]any)
	}
	require.Equal(t, "localhost:8889", page(shipped)["endpoint"])
	page(shipped)["endpoint"] = "0.0.0.0:8889"
	shipped["extensions"].(map[string]any)["health_check"] = map[string]any{"endpoint": "localhost:13133"}
	service := shipped["service"].(map[string]any)
	service["extensions"] = append([]any{"health_check"}, service["extensions"].([]any)...)
	var telemetry any
	require.NoError(t, yaml.Unmarshal([]byte(`{metrics: {readers: [{pull: {exporter: {prometheus:
		{host: 0.0.0.0, port: 8888, without_type_suffix: true, without_units: true, without_scope_info: true}}}}]}}`), &telemetry))
	service["telemetry"] = telemetry
	require.Equal(t, shipped, inCluster)
}

// What the service installs is also where all ready configurations are.
func TestConfigIsOneOfTheReadyOnes(t *testing.T) {
	require.Equal(t, string(read(t, "../config/standalone-windows.yaml")), string(read(t, "config.yaml")),
		"config.yaml and ../config/standalone-windows.yaml must be the same")
}

// containerd unpacks no base layer without the files that Windows looks for in it.
func TestDockerfileHasABaseThatWindowsUnpacks(t *testing.T) {
	from := regexp.MustCompile(`(?m)^FROM (.*)$`).FindAllStringSubmatch(string(read(t, "Dockerfile")), -1)
	require.Len(t, from, 1)
	require.Regexp(t, `^mcr\.microsoft\.com/oss/kubernetes/windows-host-process-containers-base-image:v\S+$`, from[0][1])
	require.Contains(t, string(read(t, "README.md")), from[0][1], "no build of it was proved, which the README says")
}

// No PowerShell was at hand: what is checked is that the steps are there, in their
// order.
func TestInstallSteps(t *testing.T) {
	script := string(read(t, "install.ps1"))
	inOrder := func(steps ...string) {
		t.Helper()
		rest := script
		for _, step := range steps {
			_, after, found := strings.Cut(rest, "\n"+step)
			require.True(t, found, "%q is not there, or not after what must be before it", step)
			rest = after
		}
	}
	// A release's zip has the program above the scripts.
	inOrder(`    [string] $Binary = (Join-Path $PSScriptRoot '..\otelcol-retina.exe'),`)
	// Nothing in a directory is used before it is the administrators' own.
	inOrder("    New-Item -ItemType Directory", "    Assert-Owner $Path", "    Set-Acl ", "        Assert-Owner $item.FullName")
	// A configuration that the program refuses costs no running service.
	inOrder(
		"Protect-Directory $ConfigDir",
		"if (Test-Path -LiteralPath $configFile) {",
		"    Test-Configuration $configFile $serviceKey",
		"    Test-Configuration $Config $serviceKey",
		"    Copy-Item -LiteralPath $Config",
		"    Stop-Service",
		"Copy-Item -LiteralPath $Binary",
		"Start-Service",
	)
	// It is validated with the service's own variables.
	inOrder(
		"            foreach ($variable in (Get-Item -LiteralPath $ServiceKey).GetValue('Environment')) {",
		"        Invoke-Program $Binary @('validate', '--config', $Path)",
	)
}
