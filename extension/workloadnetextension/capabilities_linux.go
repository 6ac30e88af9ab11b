// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// checkCapabilities says what the process lacks, before a workload has to find out.
func checkCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	var missing []string
	for _, c := range []struct {
		bit  int
		name string
	}{
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN (to make links and routes)"},
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN (to enter network namespaces)"},
	} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, c.name)
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("the collector lacks %s: run it as root, or with these capabilities", strings.Join(missing, " and "))
}
