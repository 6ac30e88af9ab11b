// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

const imageName = "localhost/otelcol-retina:0.1.0"

// node is a node with a real containerd (test/cri).
type node struct{ dir string }

func startNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces and runs containerd")
	}
	n := &node{dir: "/tmp/otelcol-retina-packages-node"}
	script := func(name string, args ...string) error {
		cmd := exec.Command(filepath.Join(repository, "test/cri", name), args...)
		cmd.Env = append(os.Environ(), "CRIBED_DIR="+n.dir)
		// A file and no pipe, which the runtime would inherit and keep open.
		log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
		if err != nil {
			return err
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, said)
		}
		return nil
	}
	require.NoError(t, script("up.sh", "1.6"))
	t.Cleanup(func() { assert.NoError(t, script("down.sh")) })
	return n
}

// furnish makes of the bed's directories what a node with systemd has: shared
// mounts, and the runtime's socket in its usual place (the bed has a link).
func (n *node) furnish(t *testing.T) {
	t.Helper()
	out, err := n.command(t.Context(), "sh", "-ec", fmt.Sprintf(`
		rm /run/containerd/containerd.sock
		touch /run/containerd/containerd.sock
		mount --bind %s /run/containerd/containerd.sock
		mount --make-rshared /run/containerd
		mount --make-shared /run/netns`, n.socket())).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func (n *node) socket() string { return filepath.Join(n.dir, "run/containerd.sock") }

// command is one in the node's namespaces.
func (n *node) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{
		"--net=" + filepath.Join(n.dir, "ns/net"), "--mount=" + filepath.Join(n.dir, "ns/mnt"), "--", name}, args...)...)
}

// imageConfig is what an image says of how it is run.
type imageConfig struct {
	User            string
	Entrypoint, Cmd []string
}

// TestImage runs the image in a real container with what the DaemonSet gives it,
// on a node with a pod, and asks for the pod by name and by namespace.
func TestImage(t *testing.T) {
	image, err := filepath.Abs(filepath.Join(release(t, "0.1.0"), "otelcol-retina_0.1.0_linux.oci.tar"))
	require.NoError(t, err)
	n := startNode(t)
	n.furnish(t)
	ctr := func(args ...string) []string { return append([]string{"-a", n.socket(), "-n", "k8s.io"}, args...) }
	run(t, repository, "ctr", ctr("images", "import", image)...)
	require.Contains(t, run(t, repository, "ctr", ctr("images", "list", "--quiet")...), imageName)
	run(t, repository, "env", "CRIBED_DIR="+n.dir, "bin/testbeds/cribed", "up", "-n", "1", "-prefix", "web", "-ns", "shop")

	objects, err := kustomized()
	require.NoError(t, err)
	pod := linuxPod(t, objects)
	pid := n.startPod(t, pod)
	testkit.Eventually(t, patience, "the pod is on the page", func() error {
		page, err := n.command(t.Context(), "curl", "--silent", "--fail", "http://localhost:8889/metrics").Output()
		if err == nil && !regexp.MustCompile(`k8s_pod_network_io_bytes_total\{.*k8s_namespace_name="shop".*k8s_pod_name="web-0"`).Match(page) {
			err = fmt.Errorf("the page has no web-0:\n%s", page)
		}
		return err
	})
	// The runtime names the namespace by /var/run/netns, which the image has not.
	inodes, err := n.command(t.Context(), "sh", "-c", "stat --dereference --format=%i /var/run/netns/*").Output()
	require.NoError(t, err)
	require.Regexp(t, `^\d+\n$`, string(inodes), "one pod that is not on the node's network")
	answer, err := n.command(t.Context(), "curl", "--silent", "--fail", "http://localhost:8899/api/identities?netns="+strings.TrimSpace(string(inodes))).Output()
	require.NoError(t, err)
	var found struct {
		Outcome string
		Pods    []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(answer, &found), "%s", answer)
	require.Equal(t, "found", found.Outcome)
	require.Equal(t, "web-0", found.Pods[0].Name)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	require.Contains(t, string(status), fmt.Sprintf("Uid:\t%d", *pod.Containers[0].SecurityContext.RunAsUser))
	require.Contains(t, string(status), "CapEff:\t0000000000001800", "NET_ADMIN and NET_BROADCAST, no more")
	require.Contains(t, string(status), "NoNewPrivs:\t1")
}

// The Dockerfile describes the same image. No docker daemon was at hand to build
// it: what is checked is that it runs the same program in the same way.
func TestDockerfile(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repository, "distribution/Dockerfile"))
	require.NoError(t, err)
	instruction := func(name string) string {
		var last string
		for line := range strings.Lines(string(b)) {
			if argument, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
				last = argument
			}
		}
		return last
	}
	list := func(name string) (l []string) {
		require.NoError(t, json.Unmarshal([]byte(instruction(name)), &l))
		return l
	}
	require.Equal(t, "scratch", instruction("FROM"))
	require.Equal(t, imageConfig{instruction("USER"), list("ENTRYPOINT"), list("CMD")}, readImageConfig(t))
	for _, copied := range regexp.MustCompile(`(?m)^COPY (?:--chmod=\S+ )?([^-]\S*) `).FindAllStringSubmatch(string(b), -1) {
		require.FileExists(t, filepath.Join(repository, copied[1]))
	}
}

// readImageConfig reads the image's configuration for this machine out of the
// OCI layout: index.json, an index of platforms, a manifest, the configuration.
func readImageConfig(t *testing.T) imageConfig {
	t.Helper()
	f, err := os.Open(filepath.Join(release(t, "0.1.0"), "otelcol-retina_0.1.0_linux.oci.tar"))
	require.NoError(t, err)
	defer f.Close()
	files := map[string][]byte{}
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if h.Size < 1<<20 {
			files[h.Name], err = io.ReadAll(tr)
			require.NoError(t, err)
		}
	}
	type descriptor struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	var index, platforms struct{ Manifests []descriptor }
	var manifest struct{ Config descriptor }
	var config struct {
		OS, Architecture string
		Config           imageConfig
	}
	blob := func(d descriptor, into any) {
		require.NoError(t, json.Unmarshal(files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")], into))
	}
	require.NoError(t, json.Unmarshal(files["index.json"], &index))
	require.Len(t, index.Manifests, 1)
	blob(index.Manifests[0], &platforms)
	require.Len(t, platforms.Manifests, 1)
	require.Equal(t, runtime.GOARCH, platforms.Manifests[0].Platform.Architecture)
	blob(platforms.Manifests[0], &manifest)
	blob(manifest.Config, &config)
	require.Equal(t, "linux", config.OS)
	return config.Config
}
