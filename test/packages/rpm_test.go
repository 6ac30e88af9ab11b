// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRPM takes the package through its life in a root directory of its own, by
// Debian's rpm. Its scripts don't run, since nothing to run them is in there;
// `sh -n` reads them. No rpm distribution was at hand.
func TestRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("needs rpm: test/install-packages.sh rpm")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: rpm changes its root directory")
	}
	root := t.TempDir()
	rpm := func(args ...string) string {
		t.Helper()
		return run(t, root, "rpm", append([]string{"--root", root}, args...)...)
	}
	first, second := artifact(t, "0.1.0", "rpm"), artifact(t, "0.2.0", "rpm")
	install := []string{"--nodeps", "--noscripts", "--ignorearch"} // shadow-utils is not a Debian package
	rpm(append(install, "--install", first)...)
	require.Equal(t, "otelcol-retina-0.1.0-1", rpm("-q", "--qf", "%{NAME}-%{VERSION}-%{RELEASE}", "otelcol-retina"))
	rpm("--verify", "--nodeps", "otelcol-retina")
	configs := []string{"/etc/otelcol-retina/config.yaml", "/etc/otelcol-retina/otelcol-retina.env"}
	require.Equal(t, configs, strings.Fields(rpm("-q", "--configfiles", "otelcol-retina")))
	st, err := os.Stat(filepath.Join(root, configs[1]))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())
	run(t, root, filepath.Join(root, "usr/bin/otelcol-retina"), "validate", "--config", filepath.Join(root, configs[0]))
	assert.FileExists(t, filepath.Join(root, "usr/lib/systemd/system/otelcol-retina.service"))

	edited := "# edited\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, configs[0]), []byte(edited), 0o644))
	rpm(append(install, "--upgrade", second)...)
	require.Equal(t, "0.2.0", rpm("-q", "--qf", "%{VERSION}", "otelcol-retina"))
	b, err := os.ReadFile(filepath.Join(root, configs[0]))
	require.NoError(t, err)
	require.Equal(t, edited, string(b))

	rpm("--noscripts", "--erase", "otelcol-retina")
	require.NoFileExists(t, filepath.Join(root, "usr/bin/otelcol-retina"))
	require.FileExists(t, filepath.Join(root, configs[0]+".rpmsave"))

	for _, script := range []string{"pre", "post", "preun", "postun"} {
		run(t, repository, "sh", "-n", "distribution/packages/rpm/"+script)
	}
}
