// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// naming is the attributes that an identity is written as.
type naming struct {
	pod, namespace, uid string
	labels, annotations []metadataAttribute
}

// metadataAttribute is the key of a label or annotation and its attribute.
type metadataAttribute struct{ key, attribute string }

func newNaming(prefix string, cfg *Config) naming {
	n := naming{pod: prefix + attrPodName, namespace: prefix + attrNamespace, uid: prefix + attrPodUID}
	for _, key := range cfg.Labels {
		n.labels = append(n.labels, metadataAttribute{key, prefix + prefixLabel + key})
	}
	for _, key := range cfg.Annotations {
		n.annotations = append(n.annotations, metadataAttribute{key, prefix + prefixAnno + key})
	}
	return n
}

// contradicts reports whether the attributes name another pod than id. Then
// nothing of id may be written: a name of one pod with the UID of another is
// worse than either.
func (n *naming) contradicts(attrs pcommon.Map, id *podidentity.Identity) bool {
	return differs(attrs, n.pod, id.Name) || differs(attrs, n.namespace, id.Namespace) ||
		id.UID != "" && differs(attrs, n.uid, id.UID)
}

// differs reports whether the attribute is there with another value. An empty
// one, such as an environment variable without a value leaves, says nothing.
func differs(attrs pcommon.Map, name, value string) bool {
	v, ok := attrs.Get(name)
	return ok && !isEmpty(v) && (v.Type() != pcommon.ValueTypeStr || v.Str() != value)
}

func isEmpty(v pcommon.Value) bool {
	return v.Type() == pcommon.ValueTypeEmpty || v.Type() == pcommon.ValueTypeStr && v.Str() == ""
}

// write adds the identity; attributes that are there stay unless overwrite.
func (n *naming) write(attrs pcommon.Map, id *podidentity.Identity, overwrite bool) {
	if overwrite && id.UID == "" && n.contradicts(attrs, id) {
		attrs.Remove(n.uid) // the UID of the pod whose name is overwritten
	}
	// Grown once and not by doubling, for all that is written.
	attrs.EnsureCapacity(attrs.Len() + 3 + len(n.labels) + len(n.annotations))
	put(attrs, n.pod, id.Name, overwrite)
	put(attrs, n.namespace, id.Namespace, overwrite)
	if id.UID != "" {
		put(attrs, n.uid, id.UID, overwrite)
	}
	putAll(attrs, n.labels, id.Labels, overwrite)
	putAll(attrs, n.annotations, id.Annotations, overwrite)
}

func putAll(attrs pcommon.Map, names []metadataAttribute, values map[string]string, overwrite bool) {
	for _, n := range names {
		if value, ok := values[n.key]; ok {
			put(attrs, n.attribute, value, overwrite)
		}
	}
}

func put(attrs pcommon.Map, name, value string, overwrite bool) {
	if v, loaded := attrs.GetOrPutEmpty(name); !loaded || overwrite || isEmpty(v) {
		v.SetStr(value)
	}
}
