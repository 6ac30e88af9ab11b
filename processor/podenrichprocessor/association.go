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
	// and the container.id. Beside one of the two latter that is a sandbox's,
	// because hnsstats has put it there; else it may be an application's.
	query podidentity.Query
	// strong says that there is one besides the container.id, endpoint that it
	// is one of hnsstats.
	strong, endpoint bool
	// told says that there is a strong key, a k8s.pod.ip or an attribute of an
	// association asked before, whatever its value, unless it is empty.
	told bool
	// named says that one of the attributes that name a pod is there already.
	named bool
	// unusable says that a key has a value that it can't have.
	unusable bool
}

// readKeys reads them in one pass over the attributes. An empty one is as good
// as none: k8s.pod.uid=$(POD_UID) with POD_UID unset says nothing of the pod.
func readKeys(attrs pcommon.Map) resourceKeys {
	var r resourceKeys
	var container string
	for name, v := range attrs.All() {
		if isEmpty(v) {
			continue
		}
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
				container = v.Str()
			}
		case attrPodIP:
			r.told = true
		}
	}
	if r.endpoint {
		r.query.Sandbox = container
	} else {
		r.query.Container = container
	}
	return r
}

func (r *resourceKeys) set(k key, v pcommon.Value) bool {
	ok := setKey(&r.query, k, v)
	r.told = true
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
		if !b.fill(&q, a, attrs, keys) {
			continue
		}
		asked = true
		if id, o := b.resolve(q, at); o != unknown {
			return id, o
		}
	}
	switch {
	case asked:
		return nil, unknown
	case keys.strong || keys.query.Container != "":
		return b.resolve(keys.query, at)
	case keys.unusable:
		return nil, unusableKey
	}
	return nil, noKey
}

// fill adds an association's keys to the query, and reports whether all of
// them are there. It looks at each in any case: one that is there keeps
// later associations from asking for the sender, even if another is missing.
func (b *batch) fill(q *podidentity.Query, a association, attrs pcommon.Map, keys *resourceKeys) bool {
	// The sender of data that says itself whose it is only passes it on: its
	// own name would be the wrong one.
	sender := b.sender.known && !keys.told
	complete := true
	for _, s := range a {
		there, usable := false, false
		if s.attribute == "" {
			q.Address = b.sender.addr
			there, usable = sender, b.sender.addr.IsValid()
		} else if v, ok := attrs.Get(s.attribute); ok && !isEmpty(v) {
			keys.told = true
			there, usable = true, setKey(q, s.key, v)
		}
		complete = complete && there && usable
		keys.unusable = keys.unusable || there && !usable
	}
	return complete
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
