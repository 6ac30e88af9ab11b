// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// An ask is what a request wants to know.
type ask struct {
	keys          podidentity.Query // exactly these, if keyed
	keyed         bool
	name          string // part of the name, in lower case
	namespace     string // exactly
	anyName       string // part of namespace/name, in lower case
	offset, limit int
}

func (a *ask) matches(id *podidentity.Identity) bool {
	return (a.namespace == "" || a.namespace == id.Namespace) &&
		strings.Contains(strings.ToLower(id.Name), a.name) &&
		(a.anyName == "" || strings.Contains(strings.ToLower(id.Namespace+"/"+id.Name), a.anyName))
}

var parameters = map[string]func(*ask, string) error{
	"ip": func(a *ask, s string) (err error) {
		a.keyed = true
		a.keys.Address, err = parseAddr(s)
		return err
	},
	"uid":     func(a *ask, s string) error { a.keyed, a.keys.UID = true, s; return nil },
	"sandbox": func(a *ask, s string) error { a.keyed, a.keys.Sandbox = true, s; return nil },
	"hns_endpoint": func(a *ask, s string) error {
		a.keyed, a.keys.HNSEndpoint = true, s
		return nil
	},
	"netns": func(a *ask, s string) (err error) {
		a.keyed = true
		if a.keys.NetNS, err = strconv.ParseUint(s, 10, 64); err != nil {
			err = fmt.Errorf("%q: must be the inode number of a network namespace, such as 4026532001", s)
		}
		return err
	},
	"name":      func(a *ask, s string) error { a.name = strings.ToLower(s); return nil },
	"namespace": func(a *ask, s string) error { a.namespace = s; return nil },
	"limit":     func(a *ask, s string) (err error) { a.limit, err = parseCount(s, 1, maxLimit); return err },
	"offset":    func(a *ask, s string) (err error) { a.offset, err = parseCount(s, 0, maxOffset); return err },
}

// maxOffset is beyond every pod.
const maxOffset = 1 << 30

func parseCount(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q: must be a number from %d to %d", s, low, high)
	}
	return n, nil
}

// parseAddr takes an address as people copy it: with a port, in brackets, as a
// prefix of one address.
func parseAddr(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a, nil
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr(), nil
	}
	if p, err := netip.ParsePrefix(s); err == nil && p.IsSingleIP() {
		return p.Addr(), nil
	}
	return netip.Addr{}, fmt.Errorf("%q: must be an address, such as 10.0.0.1 or fd00::1", s)
}

// parseAsk reads the parameters of /api/identities.
func parseAsk(values url.Values) (*ask, error) {
	a := &ask{limit: defaultLimit}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, known := parameters[name]
		if !known {
			return nil, fmt.Errorf("%q: unknown parameter; allowed are: %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		if len(values[name]) != 1 {
			return nil, fmt.Errorf("%s: given %d times, must be given once", name, len(values[name]))
		}
		if err := set(a, values[name][0]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return a, nil
}

// parseSearch reads what a person typed: any key that is known, an address, or
// part of a name.
func (s *server) parseSearch(text, offset string) (*ask, error) {
	a := &ask{limit: pageSize}
	if offset != "" {
		var err error
		if a.offset, err = parseCount(offset, 0, maxOffset); err != nil {
			return nil, fmt.Errorf("offset: %w", err)
		}
	}
	if text == "" {
		return a, nil
	}
	if addr, err := parseAddr(text); err == nil {
		a.keyed, a.keys.Address = true, addr
		return a, nil
	}
	q := podidentity.Query{UID: text, Sandbox: text, HNSEndpoint: text}
	q.NetNS, _ = strconv.ParseUint(text, 10, 64) // else it is no namespace
	if len(s.cache.Leases(q)) > 0 {
		a.keyed, a.keys = true, q
	} else {
		a.anyName = strings.ToLower(text)
	}
	return a, nil
}
