// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// notRun are the commands that this test does not run, by how they begin, and
// why. One that no document has any more fails the test.
var notRun = []struct{ prefix, reason string }{
	{"make otelcol-retina", "built before this test, which runs what it makes"},
	{"make packages", "takes minutes; test-packages runs it"},
	{"make demo", "test-demo runs it"},
	{"make test", "runs this test"},
	{"test/attach/build.sh", "takes minutes from a cold build cache; test-attach runs it, and what it builds"},
	{"apt-get install ./dist/", "test/packages installs the deb"},
	{"dnf install ./dist/", "there is no dnf here; test/packages tests the rpm"},
	{"otelcol-retina validate --config /etc/otelcol-retina/", "of the installed package; test/packages runs it under a real systemd"},
	{"systemctl", "of the installed package's unit; test/packages runs it under a real systemd"},
	{"journalctl", "of the installed package's unit; test/packages runs it under a real systemd"},
	{"setcap", "would change a file of this machine"},
	{"ctr --namespace k8s.io images import", "needs make packages; test/packages imports the image into a real containerd"},
	{"skopeo", "needs make packages and a registry; test/packages imports the image into a real containerd"},
	{"install -D -m 644 -t /etc/systemd/", "would change this machine's unit; test/packages tries each drop-in"},
	{"docker", "there is no Docker here; test/packages runs the image in a real containerd"},
	{"kubectl auth can-i", "needs an API server; test/k8s tries these rights on a real one"},
	{"kubectl", "needs a cluster; test/packages dry-runs the manifests on a real API server"},
	{"helm", "needs a cluster; test/packages dry-runs the chart on a real API server"},
	{"go install go.opentelemetry.io/collector/cmd/builder@", "would change this machine's programs; TestConfigurations resolves the build with the pinned builder"},
	{"CGO_ENABLED=0 builder --config my-collector.yaml", "takes minutes; TestConfigurations resolves the build, test/e2e's TestAlone compiles and starts such ones"},
	{"my-collector/my-collector", "the program of the line before"},
	{"go test -run '^$' -bench", "a measurement, for a quiet machine; make bench runs it"},
	{"cd test/peerbench && go test", "a measurement, for a quiet machine; make bench runs it"},
	{"cd test/e2e && go test -v -run TestMemory", "test-e2e runs it"},
}

// TestCommands runs every command of the documents, in the repository's root, on
// a node that has what troubleshooting.md talks of: a pod with a name, an address
// that two pods claim, and a source that is down.
func TestCommands(t *testing.T) {
	used := map[string]bool{}
	why := func(command string) string {
		for _, n := range notRun {
			if strings.HasPrefix(strings.TrimPrefix(command, "sudo "), n.prefix) {
				used[n.prefix] = true
				return n.reason
			}
		}
		return ""
	}
	n := newNode(t)
	n.trouble(t)
	for _, b := range blocks(t, "sh", "console") {
		t.Run(b.String(), func(t *testing.T) {
			for _, c := range commands(t, b) {
				if reason := why(c.command); reason != "" {
					t.Logf("not run: %s: %s", c.command, reason)
					continue
				}
				if command := strings.TrimPrefix(c.command, "sudo "); strings.HasPrefix(command, "bin/otelcol-retina --config ") { // runs until it is stopped
					printed := n.shell(t, strings.Replace(command, " ", " print-config --format=json ", 1))
					if err := testkit.CheckPages([]byte(printed)); err != nil {
						t.Errorf("%s: %v", c.command, err)
					}
					newNode(t).collect(t, "bash", "-c", "exec "+command)
					continue
				}
				got := n.shell(t, c.command)
				if c.output != "" && mask(got) != mask(c.output) {
					t.Errorf("%s\nprints\n%s\nthe document says\n%s", c.command, got, c.output)
				}
			}
		})
	}
	for _, b := range blocks(t, "powershell") {
		t.Logf("not run: %v: PowerShell, for Windows: %s", b, strings.SplitN(b.text, "\n", 2)[0])
	}
	for _, n := range notRun {
		if !used[n.prefix] {
			t.Errorf("notRun: no document has %q", n.prefix)
		}
	}
}

type commandLine struct{ command, output string }

// commands returns the commands of a block: each line of sh, and of console each
// line that begins with a prompt, with what it prints. A backslash continues.
func commands(t *testing.T, b block) []commandLine {
	t.Helper()
	var all []commandLine
	continues := false
	for line := range strings.Lines(b.text) {
		line = strings.TrimRight(line, "\n")
		command, isCommand := line, b.lang == "sh"
		if b.lang == "console" {
			command, isCommand = strings.CutPrefix(line, "$ ")
		}
		switch {
		case continues:
			all[len(all)-1].command += "\n" + line
		case isCommand:
			command = strings.TrimSpace(trailing.ReplaceAllString(command, ""))
			if command == "" || strings.HasPrefix(command, "#") {
				continue
			}
			all = append(all, commandLine{command: command})
		case len(all) == 0:
			t.Fatalf("%v: output before a command", b)
		default:
			all[len(all)-1].output += line + "\n"
			continue
		}
		continues = strings.HasSuffix(line, `\`)
	}
	if len(all) == 0 {
		t.Errorf("%v: no command", b)
	}
	return all
}

// trailing is a comment behind a command.
var trailing = regexp.MustCompile(`\s{2,}# .*$`)

var number = regexp.MustCompile(`\d+(\.\d+)?(e[+-]\d+)?`)

// mask makes outputs comparable: numbers and times differ from run to run.
func mask(s string) string {
	return strings.TrimSpace(number.ReplaceAllString(s, "N"))
}

// trouble makes the node of troubleshooting.md, with a collector on it.
func (n *node) trouble(t *testing.T) {
	t.Helper()
	for i, address := range []string{"10.9.0.5", "10.9.0.6"} {
		n.shell(t, fmt.Sprintf(`ip netns add p%[1]d; ip link add v%[1]d type veth peer name eth0 netns p%[1]d; ip link set v%[1]d up
ip -n p%[1]d address add %[2]s/24 dev eth0; ip -n p%[1]d link set eth0 up`, i, address))
	}
	list := file(t, "pods.yaml", `pods:
  - {name: web-0, namespace: shop, addresses: [10.9.0.5], uid: 0d6a3f0e-1}
  - {name: web-1, namespace: shop, addresses: [10.9.0.6], uid: 0d6a3f0e-2}
  - {name: web-2, namespace: shop, addresses: [10.9.0.6], uid: 0d6a3f0e-3}
`)
	n.collect(t, testkit.Collector(t, root), "--config", filepath.Join(root, "distribution/config/default.yaml"), "--config", file(t, "trouble.yaml", `
extensions:
  podidentity:
    sources: {cri: {endpoint: "unix:///run/nowhere.sock"}, statefile: {path: `+list+`, format: list}}
    startup_timeout: 0s
    page:
`))
	testkit.Eventually(t, patience, "the pods are on the page", func() error {
		out := n.shell(t, `curl -s localhost:8889/metrics; curl -s localhost:8888/metrics`)
		for _, want := range []string{`k8s_pod_name="web-0"`, `outcome="ambiguous",processor="podenrich"`, `source_up{source="statefile"} 1`} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("no %s", want)
			}
		}
		return nil
	})
}
