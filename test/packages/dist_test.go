// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	repository = "../.."
	collector  = "bin/otelcol-retina" // from the repository's root, as is the next
	packaging  = "bin/packaging"
	epoch      = 1700000000
)

// dists is where the tests' releases are.
var dists string

func TestMain(m *testing.M) {
	var err error
	if dists, err = os.MkdirTemp("", "otelcol-retina-packages"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dists)
	os.Exit(code)
}

// pack runs the packaging program in the repository's root.
func pack(out, version string, env []string, args ...string) error {
	cmd := exec.Command(packaging, append([]string{"-version", version, "-out", out}, args...)...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), append([]string{"SOURCE_DATE_EPOCH=" + strconv.Itoa(epoch)}, env...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, said)
	}
	return nil
}

// release makes a release of this machine's collector, once for each version. Of
// the second one only the packages are needed.
var releases sync.Map

func release(t *testing.T, version string) string {
	t.Helper()
	once, _ := releases.LoadOrStore(version, sync.OnceValues(func() (string, error) {
		out := filepath.Join(dists, version)
		args := []string{"linux/" + runtime.GOARCH + "=" + collector}
		if version == "0.2.0" {
			args = append([]string{"-formats", "deb,rpm"}, args...)
		}
		return out, pack(out, version, nil, args...)
	}))
	dir, err := once.(func() (string, error))()
	require.NoError(t, err, "`make test-packages` builds the collector and the packaging program")
	return dir
}

func artifact(t *testing.T, version, extension string) string {
	t.Helper()
	return filepath.Join(release(t, version), fmt.Sprintf("otelcol-retina_%s_linux_%s.%s", version, runtime.GOARCH, extension))
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", cmd.Args, out)
	return string(out)
}

func TestChecksums(t *testing.T) {
	dir := release(t, "0.1.0")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	ok := run(t, dir, "sha256sum", "--check", "--strict", "SHA256SUMS")
	assert.Equal(t, len(entries)-1, strings.Count(ok, ": OK\n"), "every artifact is in it:\n%s", ok)
}

// TestReproducible makes releases of a small program twice, at different times,
// in different surroundings and from a file of another age.
func TestReproducible(t *testing.T) {
	dir := t.TempDir()
	var sums []string
	for i, env := range [][]string{{"TZ=UTC", "LC_ALL=C"}, {"TZ=Asia/Tokyo", "LC_ALL=de_DE.UTF-8", "HOME=/nonexistent", "GOMAXPROCS=1"}} {
		program := filepath.Join(dir, strconv.Itoa(i), "otelcol-retina")
		content, err := os.ReadFile(filepath.Join(repository, packaging))
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(filepath.Dir(program), 0o700+os.FileMode(i)*0o55))
		require.NoError(t, os.WriteFile(program, content, 0o600+os.FileMode(i)*0o155))
		out := filepath.Join(dir, "dist-"+strconv.Itoa(i))
		require.NoError(t, pack(out, "0.1.0", env, "linux/amd64="+program, "linux/arm64="+program, "windows/amd64="+program, "windows/arm64="+program))
		b, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		require.NoError(t, err)
		sums = append(sums, string(b))
	}
	require.Equal(t, sums[0], sums[1])
	var names []string
	for line := range strings.Lines(sums[0]) {
		names = append(names, strings.Fields(line)[1])
	}
	want := []string{"otelcol-retina-chart-0.1.0.tgz", "otelcol-retina_0.1.0_linux.oci.tar"}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, extension := range []string{"cdx.json", "deb", "rpm", "tar.gz"} {
			want = append(want, "otelcol-retina_0.1.0_linux_"+arch+"."+extension)
		}
		want = append(want, "otelcol-retina_0.1.0_windows_"+arch+".cdx.json", "otelcol-retina_0.1.0_windows_"+arch+".zip")
	}
	sort.Strings(want)
	require.Equal(t, want, names)

	z, err := zip.OpenReader(filepath.Join(dir, "dist-0", "otelcol-retina_0.1.0_windows_amd64.zip"))
	require.NoError(t, err)
	defer z.Close()
	var inside []string
	for _, f := range z.File {
		inside = append(inside, strings.TrimPrefix(f.Name, "otelcol-retina_0.1.0_windows_amd64/"))
	}
	assert.Subset(t, inside, []string{"otelcol-retina.exe", "LICENSE", "README.md", "windows/install.ps1", "windows/uninstall.ps1", "windows/config.yaml"})
}

// A wrong call says what is wrong and leaves nothing that looks like a release.
func TestPackagingRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"must be linux/ARCH=PATH or windows/ARCH=PATH": {"darwin/arm64=" + collector},
		"no binaries":               {},
		"no such file or directory": {"linux/amd64=bin/missing"},
		`-formats "apk": must be`:   {"-formats", "apk", "linux/amd64=" + collector},
	} {
		out := filepath.Join(t.TempDir(), "dist")
		require.ErrorContains(t, pack(out, "0.1.0", nil, args...), name)
		require.NoDirExists(t, out, "nothing is emptied or made")
	}
	out := filepath.Join(t.TempDir(), "dist")
	require.ErrorContains(t, pack(out, "0.2.0", nil, "-formats", "chart", "linux/amd64="+collector), "Chart.yaml has version 0.1.0")
	require.NoDirExists(t, out, "a chart would call itself something else than its file is called")
	require.ErrorContains(t, pack(t.TempDir(), "0.1.0", []string{"SOURCE_DATE_EPOCH="}, "linux/amd64="+collector), "SOURCE_DATE_EPOCH")
}

// The archive's program is the collector, and takes the configuration beside it.
func TestArchive(t *testing.T) {
	f, err := os.Open(artifact(t, "0.1.0", "tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	zr, err := gzip.NewReader(f)
	require.NoError(t, err)
	dir := t.TempDir()
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		assert.EqualValues(t, epoch, h.ModTime.Unix(), h.Name)
		path := filepath.Join(dir, h.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, h.FileInfo().Mode())
		require.NoError(t, err)
		_, err = io.Copy(w, tr)
		require.NoError(t, errors.Join(err, w.Close()))
	}
	top := filepath.Join(dir, "otelcol-retina_0.1.0_linux_"+runtime.GOARCH)
	run(t, top, "./otelcol-retina", "validate", "--config", "config/default.yaml")
	for _, name := range []string{"LICENSE", "README.md", "packages/otelcol-retina.service"} {
		assert.FileExists(t, filepath.Join(top, name))
	}
}

// The bill of materials has every module that the linker put into the binary,
// this repository's among them, at its version.
func TestBillOfMaterials(t *testing.T) {
	b, err := os.ReadFile(artifact(t, "0.1.0", "cdx.json"))
	require.NoError(t, err)
	var bom struct {
		BOMFormat, SpecVersion string
		Components             []struct{ Name, Version, PURL string }
	}
	require.NoError(t, json.Unmarshal(b, &bom))
	require.Equal(t, "CycloneDX", bom.BOMFormat)
	got := map[string]string{}
	for _, c := range bom.Components {
		assert.NotEmpty(t, c.PURL, c.Name)
		got[c.Name] = c.Version
	}
	info, err := buildinfo.ReadFile(filepath.Join(repository, collector))
	require.NoError(t, err)
	want := map[string]string{"std": info.GoVersion}
	for _, m := range info.Deps {
		switch {
		case m.Path == "github.com/otelcol-retina/otelcol-retina":
			want[m.Path] = "v0.1.0"
		case m.Replace != nil:
			want[m.Replace.Path] = m.Replace.Version
		default:
			want[m.Path] = m.Version
		}
	}
	require.Equal(t, want, got)
	require.Contains(t, got, "go.opentelemetry.io/collector/component")
}
