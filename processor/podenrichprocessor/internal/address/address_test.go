// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"IPv4", "10.9.0.5", "10.9.0.5"},
		{"IPv6", "fd00::5", "fd00::5"},
		{"IPv6 in capitals", "FD00:0:0::5", "fd00::5"},
		{"IPv4 mapped into IPv6", "::ffff:10.9.0.5", "10.9.0.5"},
		{"the same in hexadecimal", "::ffff:a09:5", "10.9.0.5"},
		{"zone", "fd00::5%eth0", "fd00::5"},
		{"IPv4 with a port", "10.9.0.5:8080", "10.9.0.5"},
		{"IPv6 with a port", "[fd00::5]:8080", "fd00::5"},
		{"IPv6 with a zone and a port", "[fd00::5%eth0]:8080", "fd00::5"},
		{"mapped with a port", "[::ffff:10.9.0.5]:8080", "10.9.0.5"},
		{"brackets alone", "[fd00::5]", "fd00::5"},

		{"empty", "", ""},
		{"host name", "web-0.shop.svc", ""},
		{"host name of hexadecimal digits", "cafe.de", ""},
		{"host name with a port", "web:80", ""},
		{"socket file", "/run/app.sock", ""},
		{"prefix", "10.9.0.5/24", ""},
		{"leading zero", "10.9.0.05", ""},
		{"too few parts", "10.9.5", ""},
		{"blanks", " 10.9.0.5", ""},
		{"zone on IPv4", "10.9.0.5%eth0", ""},
		{"IPv4 in brackets", "[10.9.0.5]:80", ""},
		{"port that is none", "10.9.0.5:http", ""},
		{"port too large", "10.9.0.5:65536", ""},
		{"port with a sign", "10.9.0.5:+80", ""},
		{"no port after the colon", "10.9.0.5:", ""},
		{"bracket that is not closed", "[fd00::5", ""},
		{"text after the bracket", "[fd00::5]8080", ""},
		{"brackets around nothing", "[]:80", ""},
		{"colon alone", ":", ""},

		{"loopback", "127.0.0.1", ""},
		{"loopback of a mesh", "127.0.0.6:51234", ""},
		{"IPv6 loopback with a port", "[::1]:80", ""},
		{"mapped loopback", "::ffff:127.0.0.1", ""},
		{"unspecified", "0.0.0.0", ""},
		{"link-local with a zone", "fe80::1%eth0", ""},
		{"multicast", "224.0.0.1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr, ok := Parse(tc.in)
			assert.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, tc.want, addr.String())
			} else {
				assert.Equal(t, netip.Addr{}, addr)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"10.9.0.5", "fd00::5", "::ffff:10.9.0.5", "fd00::5%eth0", "10.9.0.5:80", "[fd00::5]:80",
		"[fd00::5%eth0]:80", "[::ffff:10.9.0.5]:80", "[fd00::5]", "web:80", "[", "]", ":", "%", "[]", "[%]:1", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		addr, ok := Parse(s)
		if !ok {
			if addr.IsValid() {
				t.Fatalf("%q: refused, and yet %v", s, addr)
			}
			return
		}
		if n, usable := podidentity.NormalizeAddr(addr); !usable || n != addr {
			t.Fatalf("%q: %v is not normal", s, addr)
		}
		// Every form that the address is written in means the same.
		forms := []string{addr.String(), netip.AddrPortFrom(addr, 80).String()}
		if addr.Is4() {
			mapped := netip.AddrFrom16(addr.As16())
			forms = append(forms, mapped.String(), netip.AddrPortFrom(mapped, 80).String())
		} else {
			forms = append(forms, addr.String()+"%eth0", "["+addr.String()+"]", "["+addr.String()+"%1]:80")
		}
		for _, form := range forms {
			if again, ok := Parse(form); !ok || again != addr {
				t.Fatalf("%q is %v, but %q is %v", s, addr, form, again)
			}
		}
	})
}
