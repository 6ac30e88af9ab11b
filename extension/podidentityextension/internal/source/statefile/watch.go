// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watches are the directories whose changes are notified. Directories and not
// files, for a file that is replaced by a rename is another file. Every look
// asks for the directories that it reads; those that it leaves out are dropped.
// A nil notifier means that none could be had: everything then happens at the
// next poll.
type watches struct {
	notifier *fsnotify.Watcher
	dirs     map[string]bool // whether the current look has asked for it
	// failed is why the last look could not watch all it asked for.
	failed error
}

// begin starts a look.
func (w *watches) begin() {
	if w.notifier == nil {
		w.notifier, w.failed = fsnotify.NewWatcher()
		if w.failed != nil {
			return
		}
	}
	w.failed = nil
	if w.dirs == nil {
		w.dirs = map[string]bool{}
	}
	for dir := range w.dirs {
		w.dirs[dir] = false
	}
}

// add asks for a directory. Adding one that is watched already costs one system
// call, and makes good that the directory has been replaced by another.
func (w *watches) add(dir string) {
	if w.notifier == nil {
		return
	}
	if err := w.notifier.Add(dir); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.failed = err
		}
		return
	}
	w.dirs[dir] = true
}

// addNearest asks for dir or, while it is not there, for the nearest directory
// above it, where its appearance begins.
func (w *watches) addNearest(dir string) {
	for {
		nearest := nearestDir(dir)
		w.add(nearest)
		// It may have appeared before the watch was in place.
		if nearestDir(dir) == nearest {
			return
		}
	}
}

func nearestDir(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return dir
		}
		dir = parent
	}
}

// end finishes a look.
func (w *watches) end() {
	for dir, asked := range w.dirs {
		if !asked {
			delete(w.dirs, dir)
			// The kernel has dropped the watch of a directory that is gone.
			_ = w.notifier.Remove(dir)
		}
	}
}

func (w *watches) events() <-chan fsnotify.Event {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Events
}

func (w *watches) errors() <-chan error {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Errors
}

func (w *watches) close() {
	if w.notifier != nil {
		_ = w.notifier.Close()
	}
}
