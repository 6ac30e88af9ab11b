// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
)

// parseHostLocal reads one reservation of the host-local address plugin: the
// file's name is the address, its content "<container id>\r\n<interface>", of
// older plugins the id alone. Defined in containernetworking/plugins:
// plugins/ipam/host-local/backend/disk/backend.go (Reserve).
func parseHostLocal(path string, b []byte) (answer, error) {
	addr, ok := hostLocalAddr(filepath.Base(path))
	if !ok {
		return answer{}, errors.New("its name is not an address")
	}
	id, _, _ := strings.Cut(string(b), "\n")
	id = strings.TrimSpace(id)
	if id == "" {
		return answer{}, errors.New("holds no container id")
	}
	p := pod{Record: sandboxRecord(id)}
	if err := p.addAddress(addr.String()); err != nil {
		return answer{}, err
	}
	if err := p.check(); err != nil {
		return answer{}, err
	}
	return answer{pods: []pod{p}}, nil
}

// hostLocalAddr returns the address that a reservation's file name stands for;
// on Windows the colons of IPv6 are written as underscores.
func hostLocalAddr(name string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.ReplaceAll(name, "_", ":"))
	return addr, err == nil
}
