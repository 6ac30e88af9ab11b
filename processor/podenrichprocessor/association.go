// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// association is a list of keys that identify a pod together.
type association []source

func newAssociations(configs []AssociationConfig) (all []association, connection bool) {
	if len(configs) == 0 {
		return []association{{{key: keyAddress, attribute: attrPodIP}}}, false
	}
	for _, c := range configs {
		var a association
		for _, s := range c.Sources {
			a = append(a, s.source())
			connection = connection || s.From == fromConnection
		}
		all = append(all, a)
	}
	return all, connection
}

// resourceKeys is what a resource says of its pod by itself.
type resourceKeys struct {
	// query has the strong keys: pod UID, HNS endpoint id, network namespace,
	// and the sandbox id that hnsstats puts beside the two latter.
	query podidentity.Query
	// strong says that there is one, endpoint that it is one of hnsstats.
	strong, endpoint bool
	// address says that the resource has a k8s.pod.ip.
	address bool
	// container is the container.id. That of an application container is no
	// sandbox's: asked together with the pod's address it would contradict it.
	container string
	// named says that one of the attributes that name a pod is there already.
	named bool
	// unusable says that a key has a value that it can't have.
	unusable bool
}

// readKeys reads them in one pass over the attributes.
func readKeys(attrs pcommon.Map) resourceKeys {
	var r resourceKeys
	for name, v := range attrs.All() {
		switch name {
		case attrPodUID:
			r.named = true
			r.set(keyUID, v)
		case attrPodName, attrNamespace:
			r.named = true
		case attrHNSEndpoint:
			r.endpoint = r.set(keyHNSEndpoint, v) || r.endpoint
		case attrNetNS:
			r.endpoint = r.set(keyNetNS, v) || r.endpoint
		case attrContainerID:
			if v.Type() == pcommon.ValueTypeStr {
				r.container = v.Str()
			}
		case attrPodIP:
			r.address = true
		}
	}
	if r.endpoint {
		r.query.Sandbox = r.container
	}
	return r
}

func (r *resourceKeys) set(k key, v pcommon.Value) bool {
	ok := setKey(&r.query, k, v)
	r.strong = r.strong || ok
	r.unusable = r.unusable || !ok
	return ok
}

// isEndpointKey reports whether the attribute is one that hnsstats adds to a
// resource for the look-up only.
func isEndpointKey(name string, _ pcommon.Value) bool {
	return name == attrHNSEndpoint || name == attrHNSNS || name == attrNetNS || name == attrContainerID
}

// find asks for the pod of a resource. The strong keys go with each question,
// so that an address that is another pod's by now is found out. The first
// answer but "unknown" is the last.
func (b *batch) find(attrs pcommon.Map, keys *resourceKeys, at timeSpan) (*podidentity.Identity, outcome) {
	asked := false
	for _, a := range b.associations {
		q := keys.query
		if !b.fill(&q, a, attrs, keys, asked) {
			continue
		}
		asked = true
		if id, o := b.resolve(q, at); o != unknown {
			return id, o
		}
	}
	q := keys.query
	switch {
	case asked:
		return nil, unknown
	case keys.strong:
	case keys.container != "":
		q.Sandbox = keys.container
	case keys.unusable:
		return nil, unusableKey
	default:
		return nil, noKey
	}
	return b.resolve(q, at)
}

// fill adds an association's keys to the query, and reports whether all of
// them are there. asked says that the resource had another association's.
func (b *batch) fill(q *podidentity.Query, a association, attrs pcommon.Map, keys *resourceKeys, asked bool) bool {
	for _, s := range a {
		if s.attribute == "" {
			// The sender of data that says itself whose it is only passes it
			// on: its own name would be the wrong one.
			if asked || keys.strong || keys.address || !b.sender.known {
				return false
			}
			if !b.sender.addr.IsValid() {
				keys.unusable = true
				return false
			}
			q.Address = b.sender.addr
			continue
		}
		v, ok := attrs.Get(s.attribute)
		if !ok {
			return false
		}
		if !setKey(q, s.key, v) {
			keys.unusable = true
			return false
		}
	}
	return true
}

// resolve asks for the pod that the query's keys belonged to all the time.
func (b *batch) resolve(q podidentity.Query, at timeSpan) (*podidentity.Identity, outcome) {
	q.At = at.begin()
	id, o := b.resolver.Resolve(q)
	if o == podidentity.Found && at.first != at.last {
		q.At = at.last.AsTime()
		id, o = b.resolveSame(q, id)
	}
	if o == podidentity.Found && at.untimed && at.last != 0 {
		q.At = now
		id, o = b.resolveSame(q, id)
	}
	return id, outcome(o)
}

// resolveSame asks again for another time. Two pods in turn that had the same
// key make it ambiguous, because a resource has one name for all its data.
func (b *batch) resolveSame(q podidentity.Query, id *podidentity.Identity) (*podidentity.Identity, podidentity.Outcome) {
	again, o := b.resolver.Resolve(q)
	if o == podidentity.Found && (again.Name != id.Name || again.Namespace != id.Namespace || again.UID != id.UID) {
		return nil, podidentity.Ambiguous
	}
	return again, o
}
