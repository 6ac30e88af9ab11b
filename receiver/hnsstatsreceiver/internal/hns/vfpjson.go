// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// looksLikeJSON reports whether an answer is in the form that "/format 1" asks
// for. Versions of vfpctrl without it answer in text.
func looksLikeJSON(out []byte) bool {
	out = bytes.TrimSpace(out)
	return len(out) > 0 && (out[0] == '{' || out[0] == '[')
}

// decodeJSON decodes the JSON document at the beginning of an answer, which a
// line of text may follow, with numbers kept as they are written.
func decodeJSON(out []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("vfpctrl's answer is no valid JSON: %w", err)
	}
	return doc, nil
}

// readJSON reads the JSON form, of which Microsoft's SDN debugging scripts show
// the fields:
//
//	{"InformationArray":{"PortCounters":[{"Direction":0,"TcpSynPackets":101,…},…]}}
//
// Direction is 0 for out, 1 for in. A list where an object is expected, and the
// other way round, are understood.
func (b *directionCounters) readJSON(out []byte) error {
	doc, err := decodeJSON(out)
	if err != nil {
		return err
	}
	for _, fields := range objects(doc, "PortCounters") {
		d, ok := directionNamed(scalar(field(fields, "Direction")))
		if !ok {
			return fmt.Errorf("vfpctrl's PortCounters[] has the unknown Direction %q", scalar(field(fields, "Direction")))
		}
		if err := b.begin(d); err != nil {
			return err
		}
		if err := b.putFields(d, fields); err != nil {
			return err
		}
	}
	return nil
}

func (b *directionCounters) putFields(d endpoint.Direction, fields map[string]any) error {
	for name, value := range fields {
		c, ok := counterNamed(name)
		if !ok {
			continue
		}
		v, err := countIn(value)
		if err != nil {
			return fmt.Errorf("vfpctrl's counter %q: %w", name, err)
		}
		if err := b.put(d, c, v); err != nil {
			return err
		}
	}
	return nil
}

// objects returns every object that is, or is an element of, a member with that
// name anywhere in a JSON document.
func objects(doc any, name string) []map[string]any {
	var all []map[string]any
	switch v := doc.(type) {
	case map[string]any:
		for k, member := range v {
			if strings.EqualFold(k, name) {
				all = append(all, elements(member)...)
				continue
			}
			all = append(all, objects(member, name)...)
		}
	case []any:
		for _, element := range v {
			all = append(all, objects(element, name)...)
		}
	}
	return all
}

// field returns the member of that name without regard to case.
func field(o map[string]any, name string) any {
	if v, ok := o[name]; ok {
		return v
	}
	for k, v := range o {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

// elements returns the objects of a list, or the one that v is.
func elements(v any) []map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		var all []map[string]any
		for _, element := range v {
			if o, ok := element.(map[string]any); ok {
				all = append(all, o)
			}
		}
		return all
	}
	return nil
}

// countIn returns the whole number that a JSON number or string is. Only a
// string may have thousands separators.
func countIn(v any) (uint64, error) {
	switch v := v.(type) {
	case json.Number:
		return strconv.ParseUint(string(v), 10, 64)
	case string:
		return parseCount(v)
	}
	return 0, fmt.Errorf("%v is no whole number", v)
}

// scalar returns a JSON number or string as it is written, and "" for any other
// value.
func scalar(v any) string {
	switch v := v.(type) {
	case json.Number:
		return string(v)
	case string:
		return v
	}
	return ""
}
