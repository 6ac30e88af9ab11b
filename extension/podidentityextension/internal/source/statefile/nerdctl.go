// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
)

// parseNerdctl reads the meta.json of one nerdctl container. Defined in
// containerd/nerdctl: pkg/dnsutil/hostsstore/hostsstore.go (Meta). The
// namespace is containerd's, the nearest thing to a pod's namespace that such a
// container has. Since nerdctl 2.0 only the path says it.
func parseNerdctl(path string, b []byte) (answer, error) {
	var m *struct {
		ID        string
		Namespace string
		Name      string
		Networks  map[string]*cniResult
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return answer{}, err
	}
	if m == nil || m.ID == "" {
		return answer{}, errors.New("has no ID")
	}
	p := pod{Record: sandboxRecord(m.ID)}
	p.setIdentity(m.Name, cmp.Or(m.Namespace, nerdctlNamespace(path)))
	for _, result := range sorted(m.Networks) {
		if err := p.addCNIResult(result); err != nil {
			return answer{}, err
		}
	}
	if err := p.check(); err != nil {
		return answer{}, err
	}
	return answer{pods: []pod{p}}, nil
}

// nerdctlNamespace takes the namespace from ".../etchosts/<namespace>/<id>/meta.json".
func nerdctlNamespace(path string) string {
	dir := filepath.Dir(filepath.Dir(path))
	if filepath.Base(filepath.Dir(dir)) != nerdctlHosts {
		return ""
	}
	return filepath.Base(dir)
}
