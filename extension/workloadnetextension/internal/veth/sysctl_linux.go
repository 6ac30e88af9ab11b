// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
)

// EnableForwarding has the node forward packets of the families that prefixes
// have, and returns the settings it changed.
func EnableForwarding(prefixes []netip.Prefix) (changed []string, err error) {
	for _, setting := range []struct {
		is4        bool
		name, path string
	}{
		{true, "net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"},
		{false, "net.ipv6.conf.all.forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"},
	} {
		if !has(prefixes, setting.is4) {
			continue
		}
		did, err := enable(setting.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the kernel lacks this family, configure no prefix of it", err)
		}
		if err != nil {
			return changed, fmt.Errorf("set %s=1, so that the node forwards the workloads' packets: %w", setting.name, err)
		}
		if did {
			changed = append(changed, setting.name)
		}
	}
	return changed, nil
}

func has(prefixes []netip.Prefix, is4 bool) bool {
	for _, p := range prefixes {
		if p.Addr().Is4() == is4 {
			return true
		}
	}
	return false
}

// enable writes 1 unless it is there: a container's /proc/sys is often read-only
// with forwarding switched on by its host.
func enable(path string) (changed bool, err error) {
	is, err := os.ReadFile(path)
	if err != nil || bytes.Equal(bytes.TrimSpace(is), []byte("1")) {
		return false, err
	}
	return true, os.WriteFile(path, []byte("1"), 0)
}
