// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"
)

// look is what one look at the state found.
type look struct {
	// path and format are what was looked at; format is "" while it is not known.
	path, format string
	// err is why there is no answer. All else but path and since is then void.
	err error
	// since is when the failure began.
	since time.Time
	// changed says that pods may differ from those of the last look.
	changed bool
	// retry says that an entry seems half-written and deserves another look soon.
	retry bool
	pods  []pod
	// at is when the last change was made, so far as the file system tells.
	at time.Time
	// broken names the entries that could not be read.
	broken []error
	// leaves says that each entry has a file of its own, and endsWithNetNS what
	// format.endsWithNetNS says.
	leaves, endsWithNetNS bool
}

// reader reads the state from the first of its paths that is there.
type reader struct {
	paths  []string
	format *format // nil until it is given or detected

	watches watches
	path    string // where file and tree are
	file    *file
	tree    *tree
	// badSince is when looks began to fail other than by the file itself.
	badSince time.Time
}

func newReader(paths []string, f *format, log *zap.Logger) *reader {
	return &reader{paths: paths, format: f, watches: newWatches(log)}
}

// look looks at the state and keeps the watches in place. A poll makes sure of
// what another look may take for granted: that unchanged files and watched
// directories are what they were.
func (r *reader) look(now time.Time, poll bool) look {
	r.watches.begin(poll)
	defer r.watches.end()
	l := r.lookAt(now, poll)
	if l.err == nil {
		r.badSince = time.Time{}
	} else if l.since = r.badSince; l.since.IsZero() {
		r.badSince, l.since = now, now
	}
	if r.format != nil {
		l.format = r.format.name
	}
	return l
}

func (r *reader) lookAt(now time.Time, poll bool) look {
	path, info, err := r.find()
	if err != nil {
		return look{path: path, err: err}
	}
	if path != r.path {
		r.path, r.file, r.tree = path, nil, nil
	}
	if r.format == nil && info.IsDir() {
		r.watches.add(path)
		if err := r.detectDir(); err != nil {
			return look{path: path, err: err}
		}
	}
	if r.format != nil && r.format.leaves != nil {
		return r.lookAtTree(now, poll, info)
	}
	return r.lookAtFile(now, poll)
}

// find returns the first path that is there, and watches for the others.
func (r *reader) find() (string, os.FileInfo, error) {
	for _, path := range r.paths {
		r.watches.addNearest(filepath.Dir(path))
		info, err := os.Stat(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, info, err
		}
	}
	return strings.Join(r.paths, " or "), nil, fs.ErrNotExist
}

func (r *reader) lookAtTree(now time.Time, poll bool, info os.FileInfo) look {
	if !info.IsDir() {
		return look{path: r.path, err: fmt.Errorf("is a file, but the format %s is a directory", r.format.name)}
	}
	if r.tree == nil {
		r.tree = newTree(r.format, r.watches.add)
	}
	l := r.tree.look(r.path, now, poll)
	l.path, l.leaves, l.endsWithNetNS = r.path, true, r.format.endsWithNetNS
	return l
}

func (r *reader) lookAtFile(now time.Time, poll bool) look {
	if r.file == nil {
		r.file = &file{path: r.path, limit: maxFile, torn: true, parse: r.parse}
	}
	f := r.file
	changed, err := f.look(now, poll)
	if err != nil {
		return look{path: r.path, err: err}
	}
	return look{path: r.path, changed: changed, pods: f.good.pods, broken: f.good.broken, at: f.info.ModTime()}
}

// parse reads one file in the format that is given or, the first time, that it
// turns out to have.
func (r *reader) parse(path string, b []byte) (answer, error) {
	if r.format != nil {
		return r.format.parse(path, b)
	}
	detected, err := r.usual(detectFile(b))
	if err != nil {
		return answer{}, err
	}
	f := formats[detected]
	a, err := f.parse(path, b)
	if err == nil {
		// A state file doesn't change its kind: from here on another one is an error.
		r.format = f
	}
	return a, err
}

func (r *reader) detectDir() error {
	detected, err := r.usual(detectDir(r.path))
	if err == nil {
		r.format = formats[detected]
	}
	return err
}

// usual takes a path whose content does not tell its format, such as an empty
// directory, for the format whose usual place it is.
func (r *reader) usual(detected string, err error) (string, error) {
	if errors.Is(err, errUndetected) {
		if f := usualFormat(runtime.GOOS, r.path); f != "" {
			return f, nil
		}
	}
	return detected, err
}
