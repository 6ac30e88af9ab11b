// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package address reads the addresses that telemetry carries.
package address

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// Parse reads an address in any of the forms found in telemetry: bare,
// IPv4-mapped, with a zone, with a port (10.0.0.5:80, [fd00::5]:80) or in
// brackets alone. It reports false for what is none of these (source.address
// may hold a host name) and for an address that can't tell pods apart, such as
// a loopback one.
func Parse(s string) (netip.Addr, bool) {
	host := withoutPort(s)
	if v6, _, zoned := strings.Cut(host, "%"); zoned && strings.Contains(v6, ":") {
		// Cut off here, because ParseAddr would intern the zone for nothing.
		host = v6
	}
	if !isAddrText(host) {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return podidentity.NormalizeAddr(addr)
}

// withoutPort returns the host part of s, or "" when s has brackets or a port
// that are not well-formed. More than one colon without brackets is an IPv6
// address without a port.
func withoutPort(s string) string {
	if strings.HasPrefix(s, "[") {
		host, rest, closed := strings.Cut(s[1:], "]")
		if !closed || !strings.Contains(host, ":") || rest != "" && !isPort(rest) {
			return ""
		}
		return host
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && strings.LastIndexByte(s, ':') == i {
		if !isPort(s[i:]) {
			return ""
		}
		return s[:i]
	}
	return s
}

// isPort reports whether s is a colon and a port number.
func isPort(s string) bool {
	if s[0] != ':' {
		return false
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

// isAddrText tells host names from addresses, so that no error is allocated
// for each of them.
func isAddrText(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') && c != '.' && c != ':' {
			return false
		}
	}
	return s != ""
}
