// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tree is a directory in which each pod, or each of its interfaces, has a file:
// a leaf. A leaf that is half-written keeps its own last good answer; one that
// is gone ends it.
type tree struct {
	format *format
	// watch is called with every directory before it is read, so that no change
	// after the reading goes unnoticed.
	watch func(dir string)

	files map[string]*file

	// What one look found.
	found   map[string]string // key of a leaf to its path
	changed time.Time         // the newest change of a directory
	closed  map[string]error  // directories below the root that could not be read
}

func newTree(f *format, watch func(string)) *tree {
	return &tree{format: f, watch: watch, files: map[string]*file{}}
}

// look lists the leaves below root and reads those that may have changed.
func (t *tree) look(root string, now time.Time, poll bool) look {
	t.found, t.changed, t.closed = map[string]string{}, time.Time{}, map[string]error{}
	if err := t.format.leaves(t, root); err != nil {
		return look{err: err}
	}
	l := look{at: t.changed}
	for dir, err := range sorted(t.closed) {
		l.broken = append(l.broken, fmt.Errorf("%s: %w", relative(root, dir), bare(err)))
	}
	for key, path := range sorted(t.found) {
		f := t.files[key]
		if f == nil {
			f = &file{limit: t.format.limit(), parse: t.format.parse}
			t.files[key] = f
		}
		f.path = path
		changed, err := f.look(now, poll)
		switch {
		case err == nil:
			l.changed = l.changed || changed
		case errors.Is(err, fs.ErrNotExist): // removed since it was listed
			delete(t.found, key)
		case now.Sub(f.badSince) < settle:
			l.retry = true
		default:
			l.broken = append(l.broken, fmt.Errorf("%s: %w", relative(root, path), bare(err)))
		}
	}
	anyGood := false
	for key, f := range sorted(t.files) {
		if _, ok := t.found[key]; !ok && !t.isClosed(f.path) {
			delete(t.files, key)
			l.changed = true
			continue
		}
		if f.good != nil {
			anyGood = true
			l.pods = append(l.pods, f.good.pods...)
			l.broken = append(l.broken, f.good.broken...)
		}
	}
	if len(l.broken) > 0 && !anyGood {
		l.err = fmt.Errorf("none of its entries could be read: %w", l.broken[0])
	}
	return l
}

func (t *tree) isClosed(path string) bool {
	for dir := range t.closed {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// leaf notes a file under a key that stays the same when the file moves.
func (t *tree) leaf(key, path string) error {
	t.found[key] = path
	if len(t.found) > maxLeaves {
		return fmt.Errorf("holds more than the %d files that are read", maxLeaves)
	}
	return nil
}

// readDir watches and lists a directory.
func (t *tree) readDir(dir string) ([]fs.DirEntry, error) {
	t.watch(dir)
	entries, info, err := readDir(dir)
	if err == nil && info.ModTime().After(t.changed) {
		t.changed = info.ModTime()
	}
	return entries, err
}

// readSubdir is readDir for a directory below the root, which costs no more
// than its own entries.
func (t *tree) readSubdir(dir string) []fs.DirEntry {
	entries, err := t.readDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.closed[dir] = err
	}
	return entries
}

// readDir lists a directory in the order of names.
func readDir(dir string) ([]fs.DirEntry, os.FileInfo, error) {
	f, err := openShared(dir)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return nil, nil, errors.New("is a file, not a directory")
	}
	entries, err := f.ReadDir(maxLeaves + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if len(entries) > maxLeaves {
		return nil, nil, fmt.Errorf("holds more than the %d entries that are read", maxLeaves)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, info, nil
}

// cniResults finds the files of libcni's cache, "<network>-<container id>-<interface>".
func (t *tree) cniResults(root string) error {
	entries, err := t.readDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !isCNIResultName(e.Name()) {
			continue
		}
		path := filepath.Join(root, e.Name())
		if err := t.leaf(path, path); err != nil {
			return err
		}
	}
	return nil
}

func isCNIResultName(name string) bool {
	return strings.Count(name, "-") >= 2 && !strings.HasPrefix(name, ".")
}

// hostLocal finds reservations in "<root>/<network>/<address>", and in
// "<root>/<address>" when the root is one network's directory.
func (t *tree) hostLocal(root string) error {
	entries, err := t.readDir(root)
	if err != nil {
		return err
	}
	add := func(dir string, e fs.DirEntry) error {
		if _, ok := hostLocalAddr(e.Name()); !ok || e.IsDir() {
			return nil
		}
		path := filepath.Join(dir, e.Name())
		return t.leaf(path, path)
	}
	for _, e := range entries {
		if !e.IsDir() {
			if err := add(root, e); err != nil {
				return err
			}
			continue
		}
		network := filepath.Join(root, e.Name())
		for _, e := range t.readSubdir(network) {
			if err := add(network, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// ciliumStale is the suffix under which Cilium keeps an endpoint's directory
// while it moves a new one into its place (pkg/endpoint/directory.go).
const ciliumStale = "_stale"

// ciliumStates are the files that hold an endpoint's state, the newest kind
// first.
var ciliumStates = []string{"ep_config.json", "ep_config.h", "lxc_config.h"}

// cilium finds the state of each endpoint, "<root>/<endpoint id>/ep_config.json".
func (t *tree) cilium(root string) error {
	entries, err := t.readDir(root)
	if err != nil {
		return err
	}
	dirs := map[string]string{}
	for _, e := range entries {
		id, stale := strings.CutSuffix(e.Name(), ciliumStale)
		if _, err := strconv.ParseUint(id, 10, 64); err != nil || !e.IsDir() {
			continue
		}
		if _, ok := dirs[id]; !ok || !stale {
			dirs[id] = e.Name()
		}
	}
	for id, name := range dirs {
		dir := filepath.Join(root, name)
		entries := t.readSubdir(dir)
		for _, state := range ciliumStates {
			if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == state }) {
				continue
			}
			if err := t.leaf(id, filepath.Join(dir, state)); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

const (
	nerdctlHosts = "etchosts"
	nerdctlMeta  = "meta.json"
)

// nerdctl finds "<root>/<address hash>/etchosts/<namespace>/<id>/meta.json". The
// root may also be the directory of one hash, or its etchosts.
func (t *tree) nerdctl(root string) error {
	if filepath.Base(root) == nerdctlHosts {
		return t.nerdctlHosts(root, t.readDir)
	}
	entries, err := t.readDir(root)
	if err != nil {
		return err
	}
	lenient := func(dir string) ([]fs.DirEntry, error) { return t.readSubdir(dir), nil }
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		switch {
		case !e.IsDir():
			continue
		case e.Name() == nerdctlHosts:
			err = t.nerdctlHosts(dir, lenient)
		case slices.ContainsFunc(t.readSubdir(dir), func(e fs.DirEntry) bool { return e.Name() == nerdctlHosts }):
			err = t.nerdctlHosts(filepath.Join(dir, nerdctlHosts), lenient)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) nerdctlHosts(dir string, read func(string) ([]fs.DirEntry, error)) error {
	namespaces, err := read(dir)
	if err != nil {
		return err
	}
	for _, ns := range namespaces {
		if !ns.IsDir() {
			continue
		}
		nsDir := filepath.Join(dir, ns.Name())
		for _, c := range t.readSubdir(nsDir) {
			if !c.IsDir() {
				continue
			}
			cDir := filepath.Join(nsDir, c.Name())
			// A stopped container keeps its directory, without the meta.json.
			if !slices.ContainsFunc(t.readSubdir(cDir), func(e fs.DirEntry) bool { return e.Name() == nerdctlMeta }) {
				continue
			}
			path := filepath.Join(cDir, nerdctlMeta)
			if err := t.leaf(path, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// relative names a path by its place below root.
func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return rel
	}
	return path
}

// bare is an error of the file system without the path, which the message that
// it goes into names already.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
