// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxYAML bounds a list in YAML, about 2,500 pods: its parser needs a hundred
// bytes of memory and more for each byte of the densest input, JSON's does not.
const maxYAML = 512 << 10

var (
	errNoPods    = errors.New(`has no "pods" list`)
	errPodsEmpty = errors.New("pods: has no value; write [] when there are none")
	errAlias     = errors.New("has a YAML alias (*name), which a list may not")
	errTorn      = errors.New("its last line has no end, so it may be half-written; end it with a line break")
)

// listPod is one pod of the list format, this project's own; STATEFILES.md
// defines it.
type listPod struct {
	Name      string            `json:"name" yaml:"name"`
	Namespace string            `json:"namespace" yaml:"namespace"`
	UID       string            `json:"uid" yaml:"uid"`
	Addresses *[]string         `json:"addresses" yaml:"addresses"`
	Labels    map[string]string `json:"labels" yaml:"labels"`
	SandboxID string            `json:"sandbox_id" yaml:"sandbox_id"`
	NetNS     string            `json:"netns" yaml:"netns"`
}

// parseList reads a list of pods in JSON or YAML.
func parseList(b []byte) (answer, error) {
	if isObject(b) {
		a, err := parseListJSON(b)
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return a, err
		}
		// YAML's flow style begins with a brace, too.
		if a, yamlErr := parseListYAML(b); yamlErr == nil {
			return a, nil
		}
		return answer{}, err
	}
	return parseListYAML(b)
}

func parseListJSON(b []byte) (answer, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return answer{}, err
	}
	raw, ok := field(file, "pods")
	if !ok {
		return answer{}, errNoPods
	}
	var entries *[]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return answer{}, fmt.Errorf("pods: %w", err)
	}
	if entries == nil {
		return answer{}, errPodsEmpty
	}
	list := newListReader()
	for i, raw := range *entries {
		var e listPod
		err := json.Unmarshal(raw, &e)
		var fields map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(raw, &fields)
		}
		list.add(i, &e, maps.Keys(fields), err)
	}
	return list.answer, nil
}

func parseListYAML(b []byte) (answer, error) {
	if len(b) > maxYAML {
		return answer{}, fmt.Errorf("is %d bytes of YAML, more than the %d allowed; write it in JSON", len(b), maxYAML)
	}
	// A name or an address cut off in mid-line is another name or address.
	if !bytes.HasSuffix(b, []byte("\n")) && !endsWithBracket(b) {
		return answer{}, errTorn
	}
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	var file yaml.Node
	if err := decoder.Decode(&file); errors.Is(err, io.EOF) { // comments only
		return answer{}, errNoPods
	} else if err != nil {
		return answer{}, err
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return answer{}, errors.New("holds more than one YAML document")
	}
	root := file.Content[0]
	if root.Kind != yaml.MappingNode {
		return answer{}, errNoPods
	}
	if hasAlias(root) {
		return answer{}, errAlias
	}
	lowerKeys(root)
	var top struct {
		Pods yaml.Node `yaml:"pods"`
	}
	if err := root.Decode(&top); err != nil {
		return answer{}, err
	}
	switch pods := top.Pods; {
	case pods.Kind == 0:
		return answer{}, errNoPods
	case pods.Kind == yaml.ScalarNode && pods.Tag == "!!null":
		return answer{}, errPodsEmpty
	case pods.Kind != yaml.SequenceNode:
		return answer{}, errors.New("pods: is no list")
	}
	list := newListReader()
	for i, node := range top.Pods.Content {
		lowerKeys(node)
		var e listPod
		err := node.Decode(&e)
		if mismatch := (*yaml.TypeError)(nil); errors.As(err, &mismatch) {
			err = errors.New(mismatch.Errors[0]) // one line says it
		}
		list.add(i, &e, mappingKeys(node), err)
	}
	return list.answer, nil
}

func mappingKeys(n *yaml.Node) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(n.Content) && yield(n.Content[i].Value); i += 2 {
		}
	}
}

// hasAlias says whether a document repeats a part of itself by its name. A few
// lines can so stand for more than fits into memory.
func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// lowerKeys writes a mapping's keys in lower case, so that YAML's names are
// matched as JSON's are.
func lowerKeys(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		n.Content[i].Value = strings.ToLower(n.Content[i].Value)
	}
}

// listFields are the fields of a listPod.
var listFields = []string{"name", "namespace", "uid", "addresses", "labels", "sandbox_id", "netns"}

// knownFields refuses an entry with a field that no list has: a misspelt one
// would be a key that the pod lacks. The format is this project's own, so that
// nobody else adds to it.
func knownFields(names iter.Seq[string]) error {
	for _, name := range slices.Sorted(names) {
		if !slices.Contains(listFields, strings.ToLower(name)) {
			return fmt.Errorf("%q is no field of a pod; these are: %s", clip(name), strings.Join(listFields, ", "))
		}
	}
	return nil
}

// A listReader collects a list's pods.
type listReader struct {
	answer
	owners map[string]int // the entry of each
}

func newListReader() *listReader { return &listReader{owners: map[string]int{}} }

// add takes an entry. Of two for one pod the second is left out: it can be the
// copy of an entry whose name was not changed, and its addresses another pod's.
func (r *listReader) add(i int, e *listPod, fields iter.Seq[string], err error) {
	var p pod
	if err == nil {
		p, err = e.pod()
	}
	if err == nil {
		err = knownFields(fields)
	}
	if err == nil {
		if first, twice := r.owners[p.owner()]; twice {
			err = fmt.Errorf("is the same pod as pods[%d]; write all its addresses into one entry, or give each pod its own name, uid or sandbox_id", first)
		} else {
			r.owners[p.owner()] = i
		}
	}
	if err != nil {
		r.leaveOut(fmt.Errorf("pods[%d] (name %q): %w", i, clip(e.Name), err))
		return
	}
	r.pods = append(r.pods, p)
}

func (e *listPod) pod() (pod, error) {
	for _, f := range []struct{ key, value string }{{"name", e.Name}, {"namespace", e.Namespace}} {
		if f.value == "" {
			return pod{}, fmt.Errorf("%s: is missing", f.key)
		}
	}
	if e.Addresses == nil {
		return pod{}, errors.New("addresses: is missing; write [] when the pod has none of its own")
	}
	p := pod{Record: sandboxRecord(e.SandboxID)}
	p.setIdentity(e.Name, e.Namespace)
	p.Identity.UID, p.Identity.Labels = e.UID, e.Labels
	for _, addr := range *e.Addresses {
		if addr == "" {
			return pod{}, errors.New("addresses: holds an empty one")
		}
		if err := p.addAddress(addr); err != nil {
			return pod{}, fmt.Errorf("addresses: %w", err)
		}
	}
	if e.NetNS != "" {
		if !strings.HasPrefix(e.NetNS, "/") {
			return pod{}, fmt.Errorf("netns: %q is no absolute path", clip(e.NetNS))
		}
		p.netns = e.NetNS
	}
	return p, p.check()
}

// endsWithBracket says that text does not end within a name or an address.
func endsWithBracket(b []byte) bool {
	b = bytes.TrimSpace(b)
	return bytes.HasSuffix(b, []byte("]")) || bytes.HasSuffix(b, []byte("}"))
}
