// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// The binary is a Windows service as well: started and stopped by a service
// manager, which here is Wine's.
func TestWindowsService(t *testing.T) {
	bed := node{Dir: simhns.New(t), n: 3}
	want := bed.put(0)
	startRuntime(t, bed.Dir)
	c := newCollector(t)
	dir := config(t, c, bed.Dir, time.Second)

	const name = "otelcol-retina-test"
	sc := func(args ...string) string {
		out, err := wine(t, append([]string{"sc"}, args...)...)
		require.NoError(t, err, "sc %s: %s", strings.Join(args, " "), out)
		return out
	}
	// A service has the service manager's environment, not this one's.
	dirFile := filepath.Join(prefix(), "drive_c", "simhns.dir")
	require.NoError(t, os.WriteFile(dirFile, []byte(windows(bed.Path)), 0o644))
	t.Cleanup(func() { _ = os.Remove(dirFile) })
	_, _ = wine(t, "sc", "delete", name) // of a run that was cut off
	sc("create", name, "start=", "demand", "binPath=", fmt.Sprintf(`"%s" --config "%s" --config "%s"`, windows(binary(t)),
		windows(filepath.Join(dir, "shipped.yaml")), windows(filepath.Join(dir, "test.yaml"))))
	t.Cleanup(func() { _, _ = wine(t, "sc", "delete", name) })

	// Wine ends its services with the last program: the runtime above is one.
	sc("start", name)
	t.Cleanup(func() { _, _ = wine(t, "sc", "stop", name) })
	requirePage(t, c.page, want)
	requirePage(t, c.page, bed.put(1))
	require.Contains(t, sc("query", name), "RUNNING")

	sc("stop", name)
	require.True(t, waitUntil(patient, func() bool {
		out, _ := wine(t, "sc", "query", name)
		return strings.Contains(out, "STOPPED")
	}), "it stops")
	_, err := fetch(t, c.page)
	require.Error(t, err, "and nothing serves the page")
}
