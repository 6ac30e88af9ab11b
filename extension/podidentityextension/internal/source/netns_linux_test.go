// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source/sourcetest"
)

func TestNetNSPathInAContainer(t *testing.T) {
	sourcetest.InContainer(t, func() {
		for path, want := range map[string]string{
			"/var/run/netns/pod":  "/run/netns/pod",
			"/var/run/netns/gone": "/run/netns/gone",
			"/run/netns/pod":      "/run/netns/pod",
			"/var/run/ns/pod":     "/var/run/ns/pod", // in a directory that we don't see
			"/var/run/secrets":    "/var/run/secrets",
			"/proc/1/ns/net":      "/proc/1/ns/net",
			"":                    "",
		} {
			assert.Equal(t, want, source.NetNSPath(path), path)
		}
		// One that is seen by the name that others give it.
		const mounted = "/var/run/netns/pod"
		assert.NoError(t, os.Mkdir(filepath.Dir(mounted), 0o755))
		assert.NoError(t, os.WriteFile(mounted, nil, 0o600))
		assert.Equal(t, mounted, source.NetNSPath(mounted))
	})
}
