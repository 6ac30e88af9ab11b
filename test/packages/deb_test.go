// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

const (
	pods   = "http://localhost:8889/metrics"
	own    = "http://localhost:8888/metrics"
	config = "/etc/otelcol-retina/config.yaml"
)

// TestDeb takes the package through its life on a machine with systemd: the unit
// runs as shipped, with all that it forbids itself.
func TestDeb(t *testing.T) {
	m := boot(t)
	first, second := artifact(t, "0.1.0", "deb"), artifact(t, "0.2.0", "deb")

	// Installing starts it under its own user with two capabilities.
	m.must(t, "dpkg", "--install", m.copyIn(t, first))
	m.awaitLine(t, own, "otelcol_extension_podidentity_source_up", "} 0") // no runtime yet
	require.Equal(t, "enabled", m.must(t, "systemctl", "is-enabled", "otelcol-retina"))
	status := m.status(t)
	user := strings.Fields(m.must(t, "getent", "passwd", "otelcol-retina"))[0]
	id := strings.Split(user, ":")[2]
	require.NotEqual(t, "0", id)
	require.Equal(t, strings.Repeat(id+"\t", 3)+id, status["Uid"])
	const netAdminAndBroadcast = "0000000000001800" // bits 12 and 11, linux/capability.h
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd", "CapAmb"} {
		require.Equal(t, netAdminAndBroadcast, status[set], set)
	}
	require.Equal(t, "1", status["NoNewPrivs"])
	require.Equal(t, "2", status["Seccomp"], "a filter")
	require.NotContains(t, m.must(t, "journalctl", "-u", "otelcol-retina", "-o", "cat"), "CAP_NET_BROADCAST")

	// It may open the socket of a real container runtime, root:root 0660.
	m.must(t, "systemctl", "start", "containerd")
	m.awaitLine(t, own, `otelcol_extension_podidentity_source_up{source="cri"} 1`)

	// It reports pods by name. The list is another source in an edited config.
	edited := strings.Replace(m.read(t, config), "cri: {}", "cri: {}\n      statefile/list: {path: /etc/otelcol-retina/pods.yaml, format: list}", 1)
	edited = strings.Replace(edited, "collection_interval: 10s", "collection_interval: 1s", 1)
	m.write(t, config, edited)
	m.addPod(t, "web-0", 0)
	m.addPod(t, "web-1", 1)
	m.write(t, "/etc/otelcol-retina/pods.yaml", `pods:
  - {name: web-0, namespace: shop, addresses: [10.214.0.10], netns: /run/netns/web-0}
  - {name: web-1, namespace: shop, addresses: [10.214.0.11]}
`)
	m.must(t, "systemctl", "reload", "otelcol-retina")
	for _, pod := range []string{"web-0", "web-1"} {
		m.awaitLine(t, pods, "k8s_pod_network_io_bytes_total", `k8s_namespace_name="shop"`, `k8s_pod_name="`+pod+`"`)
	}
	// A reload of what can't be taken over is refused, and the service goes on.
	running := m.mainPID(t)
	m.write(t, config, strings.Replace(edited, "hnsstats:", "hnstats:", 1))
	said, err := m.run("systemctl", "reload", "otelcol-retina")
	require.Error(t, err, said)
	m.write(t, config, edited)
	require.Contains(t, m.must(t, "journalctl", "-u", "otelcol-retina", "-o", "cat"), `unknown type: "hnstats"`)
	m.awaitLine(t, pods, `k8s_pod_name="web-1"`)
	require.Equal(t, running, m.mainPID(t))
	m.must(t, "systemctl", "reload", "otelcol-retina")

	// A pod that comes while it runs: its namespace is mounted after the unit's own
	// mounts were made.
	m.addPod(t, "web-2", 2)
	m.write(t, "/etc/otelcol-retina/pods.yaml", "pods: [{name: web-2, namespace: shop, addresses: [192.0.2.1], netns: /run/netns/web-2}]\n")
	m.awaitLine(t, pods, `k8s_pod_name="web-2"`, `k8s_pod_ip="10.214.0.12"`)

	t.Run("unit", func(t *testing.T) { m.testUnit(t) })
	t.Run("drop-ins", func(t *testing.T) { m.testDropIns(t) })

	// Upgrading keeps the edited config and restarts the service.
	before := m.mainPID(t)
	again := m.copyIn(t, second)
	m.must(t, "dpkg", "--install", "--force-confold", again)
	require.Equal(t, "0.2.0", m.must(t, "dpkg-query", "-W", "-f", "${Version}", "otelcol-retina"))
	require.Equal(t, edited, m.read(t, config))
	require.NotEqual(t, before, m.mainPID(t))
	m.awaitLine(t, pods, `k8s_pod_name="web-2"`)

	// An administrator's word counts: what is disabled stays so.
	m.must(t, "systemctl", "disable", "otelcol-retina")
	m.must(t, "dpkg", "--install", "--force-confold", again)
	enabled, _ := m.run("systemctl", "is-enabled", "otelcol-retina")
	require.Equal(t, "disabled", enabled)

	// Removing stops it and keeps what is the administrator's; purging doesn't.
	m.must(t, "dpkg", "--remove", "otelcol-retina")
	active, _ := m.run("systemctl", "is-active", "otelcol-retina")
	require.Equal(t, "inactive", active)
	require.NoFileExists(t, m.path("/usr/bin/otelcol-retina"))
	require.Equal(t, edited, m.read(t, config))
	require.DirExists(t, m.path("/var/lib/otelcol-retina"))

	require.NoError(t, os.Remove(m.path("/etc/otelcol-retina/pods.yaml"))) // the test's own
	m.must(t, "dpkg", "--purge", "otelcol-retina")
	for _, path := range strings.Fields(m.must(t, "find", "/etc", "/usr", "/lib", "/var/lib", "-xdev", "-name", "*otelcol-retina*", "-not", "-path", "*/go/*")) {
		assert.Fail(t, "left behind after the purge", path)
	}
	require.Contains(t, m.must(t, "getent", "passwd", "otelcol-retina"), "nologin", "the user stays, locked")
}

// status is /proc/PID/status of the running service.
func (m *machine) status(t *testing.T) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(m.read(t, "/proc/"+m.mainPID(t)+"/status")) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	return fields
}

func (m *machine) mainPID(t *testing.T) string {
	t.Helper()
	pid := m.must(t, "systemctl", "show", "--value", "-p", "MainPID", "otelcol-retina")
	require.NotEqual(t, "0", pid)
	return pid
}

// testUnit checks the unit as systemd understands it, and that the README's
// figure is the one that systemd gives.
func (m *machine) testUnit(t *testing.T) {
	out := m.must(t, "systemd-analyze", "verify", "--man=no", "/lib/systemd/system/otelcol-retina.service")
	assert.NotContains(t, out, "otelcol-retina.service:", "a warning")

	out = m.must(t, "systemd-analyze", "--offline=yes", "--no-pager", "security", "/lib/systemd/system/otelcol-retina.service")
	figure := regexp.MustCompile(`Overall exposure level for otelcol-retina\.service: (\d+\.\d)`).FindStringSubmatch(out)
	require.NotNil(t, figure, out)
	readme, err := os.ReadFile(filepath.Join(repository, "distribution/packages/README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), "Overall exposure level for otelcol-retina.service: "+figure[1]+" OK")
	value, err := strconv.ParseFloat(figure[1], 64)
	require.NoError(t, err)
	require.Less(t, value, 2.0)
}

// testDropIns takes each drop-in from where the package has it. What it is for
// fails without it and works with it.
func (m *machine) testDropIns(t *testing.T) {
	const unitDir, extra = "/etc/systemd/system/otelcol-retina.service.d", "/etc/otelcol-retina/extra.yaml"
	start := func(t *testing.T, dropIn, config string) {
		t.Helper()
		m.write(t, extra, config)
		m.write(t, unitDir+"/test.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/otelcol-retina $OTELCOL_OPTIONS --config="+extra+"\n")
		if dropIn != "" {
			m.must(t, "cp", "/usr/share/doc/otelcol-retina/drop-ins/"+dropIn, unitDir)
		}
		m.must(t, "systemctl", "daemon-reload")
		m.must(t, "journalctl", "--rotate")
		m.must(t, "journalctl", "--vacuum-time=1us")
		m.must(t, "systemctl", "restart", "otelcol-retina")
	}
	logged := func(t *testing.T, text string) {
		t.Helper()
		testkit.Eventually(t, patience, "the journal has "+text, func() error {
			_, err := m.run("sh", "-c", "journalctl -u otelcol-retina -o cat | grep -qF '"+text+"'")
			return err
		})
	}
	reset := func() {
		require.NoError(t, os.RemoveAll(m.path(unitDir)))
		require.NoError(t, os.RemoveAll(m.path(extra)))
		m.must(t, "systemctl", "daemon-reload")
		m.must(t, "systemctl", "restart", "otelcol-retina")
	}
	defer reset()

	t.Run("tcp.conf", func(t *testing.T) {
		const tcp = "receivers: {hnsstats: {netlink: {tcp: {enabled: true}}}}\n"
		start(t, "", tcp)
		logged(t, "give it CAP_SYS_ADMIN")
		start(t, "tcp.conf", tcp)
		m.awaitLine(t, pods, "k8s_pod_network_tcp_connection_events_total", `k8s_pod_name="web-2"`, `event="active_open"`)
	})
	reset()
	t.Run("statefile.conf", func(t *testing.T) {
		m.write(t, "/var/lib/secret/pods.yaml", "pods: [{name: secret-0, namespace: shop, addresses: [10.214.0.11]}]\n")
		m.must(t, "chmod", "-R", "go=", "/var/lib/secret")
		const statefile = "extensions: {podidentity: {sources: {statefile/secret: {path: /var/lib/secret/pods.yaml, format: list}}}}\n"
		start(t, "", statefile)
		m.awaitLine(t, own, `otelcol_extension_podidentity_source_up{source="statefile/secret"} 0`)
		start(t, "statefile.conf", statefile)
		m.awaitLine(t, pods, `k8s_pod_name="secret-0"`)
	})
	reset()
	t.Run("socket-group.conf", func(t *testing.T) {
		start(t, "socket-group.conf", "{}\n")
		m.awaitLine(t, own, `otelcol_extension_podidentity_source_up{source="cri"} 0`)
		m.must(t, "chgrp", "otelcol-retina", "/run/containerd/containerd.sock")
		m.awaitLine(t, own, `otelcol_extension_podidentity_source_up{source="cri"} 1`)
		m.must(t, "chgrp", "root", "/run/containerd/containerd.sock")
	})
	reset()
	t.Run("workloadnet.conf", func(t *testing.T) {
		const workloadnet = `
extensions:
  file_storage: {directory: /var/lib/otelcol-retina}
  workloadnet:
    endpoint: unix:///run/otelcol-retina/workloadnet.sock
    prefixes: [10.215.0.0/24]
    identity: podidentity
    storage: file_storage
service: {extensions: [file_storage, podidentity, workloadnet]}
`
		start(t, "", workloadnet)
		logged(t, "CAP_SYS_ADMIN (to enter network namespaces)")
		start(t, "workloadnet.conf", workloadnet)
		logged(t, "Everything is ready")
		m.must(t, "test", "-S", "/run/otelcol-retina/workloadnet.sock")
	})
}
