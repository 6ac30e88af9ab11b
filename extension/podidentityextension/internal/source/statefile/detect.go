// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// errUndetected wraps every failure to tell a format, so that a file known by
// its usual place can still be taken for what it is there.
var errUndetected = errors.New("the format cannot be told")

// fileKeys are the top-level keys that tell the formats of one file apart, in
// the order in which they are asked for.
var fileKeys = []struct{ key, format string }{
	{"Network", formatAzureVNet},
	{"Endpoints", formatAzureCNS},
	{"allocations", formatAWSIPAMD},
	{"pods", formatList},
}

var yamlPods = regexp.MustCompile(`(?mi)^["']?pods["']?\s*:`)

// detectFile tells the format of a file by its content.
func detectFile(b []byte) (string, error) {
	if !isObject(b) {
		if yamlPods.Match(b) {
			return formatList, nil
		}
		return "", fmt.Errorf("%w: it is neither a JSON object nor YAML with a list of pods; set format", errUndetected)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		if _, yamlErr := parseListYAML(b); yamlErr == nil {
			return formatList, nil
		}
		return "", err
	}
	var keys []string
	for _, k := range fileKeys {
		if _, ok := field(file, k.key); ok {
			return k.format, nil
		}
		keys = append(keys, k.key)
	}
	return "", fmt.Errorf("%w: its JSON object has none of the keys %s; set format", errUndetected, strings.Join(keys, ", "))
}

// detectDir tells the format of a directory by its layout.
func detectDir(root string) (string, error) {
	if filepath.Base(root) == nerdctlHosts {
		return formatNerdctl, nil
	}
	entries, _, err := readDir(root)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		name, path := e.Name(), filepath.Join(root, e.Name())
		if !e.IsDir() {
			if _, ok := hostLocalAddr(name); ok {
				return formatHostLocal, nil
			}
			if isCNIResultName(name) && isCNIResult(path) {
				return formatCNIResults, nil
			}
			continue
		}
		below, _, err := readDir(path)
		if err != nil {
			continue
		}
		_, notID := strconv.ParseUint(name, 10, 64)
		for _, b := range below {
			switch _, isAddr := hostLocalAddr(b.Name()); {
			case notID == nil && slices.Contains(ciliumStates, b.Name()):
				return formatCilium, nil
			case b.IsDir() && (name == nerdctlHosts || b.Name() == nerdctlHosts):
				return formatNerdctl, nil
			case !b.IsDir() && isAddr:
				return formatHostLocal, nil
			}
		}
	}
	return "", fmt.Errorf("%w: it has none of the files of cni-results, host-local, cilium or nerdctl; set format", errUndetected)
}

func isCNIResult(path string) bool {
	b, _, err := readFile(path, maxLeaf)
	if err != nil {
		return false
	}
	_, err = parseCNIResult(b)
	return err == nil
}

// field returns an object's field by its name in any case.
func field(object map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	if raw, ok := object[name]; ok {
		return raw, true
	}
	for key, raw := range object {
		if strings.EqualFold(key, name) {
			return raw, true
		}
	}
	return nil, false
}

// isObject says whether text can be a JSON object.
func isObject(b []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{"))
}
