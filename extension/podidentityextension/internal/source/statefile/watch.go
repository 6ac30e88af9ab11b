// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// watches are the directories whose changes are notified. Directories and not
// files, for a file that is replaced by a rename is another file. Every look
// asks for the directories that it reads; those that it leaves out are dropped.
// Without a notifier, for the kernel has a limited number of them, everything
// happens at the next poll.
type watches struct {
	log *zap.Logger
	// changed receives when there has been any change since the last look.
	changed chan struct{}

	notifier *fsnotify.Watcher
	gathered chan struct{} // closed when gather has ended
	// dirs are the directories that have been added, and whether the current
	// look has asked for them.
	dirs map[string]bool
	// current are those of them that need not be added again. Gather takes out
	// what is no longer where it was.
	mu      sync.Mutex
	current map[string]bool
	// failed is why the last look could not watch all it asked for.
	failed error
}

func newWatches(log *zap.Logger) watches {
	return watches{log: log, changed: make(chan struct{}, 1), dirs: map[string]bool{}, current: map[string]bool{}}
}

// begin starts a look. A poll asks anew for directories that are watched
// already, one of which may have been replaced by another without notice: where
// a directory above it was moved, and on Windows where it was moved itself.
func (w *watches) begin(poll bool) {
	w.failed = nil
	for dir := range w.dirs {
		w.dirs[dir] = false
	}
	if poll {
		w.mu.Lock()
		clear(w.current)
		w.mu.Unlock()
	}
	if w.notifier == nil {
		notifier, err := fsnotify.NewWatcher()
		if err != nil {
			w.failed = err
			return
		}
		w.notifier, w.gathered = notifier, make(chan struct{})
		go func() {
			defer close(w.gathered)
			w.gather(notifier.Events, notifier.Errors)
		}()
	}
}

// gather makes one signal of any number of notifications, until both channels
// are closed. It never waits: on Windows the notifier cannot take a new
// directory while it has a notification to deliver.
func (w *watches) gather(events <-chan fsnotify.Event, errs <-chan error) {
	for events != nil || errs != nil {
		select {
		case event, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
				w.forget(event.Name)
			}
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			w.log.Debug("notifications of changes were lost; looking at all of the state file again", zap.Error(err))
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func (w *watches) forget(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.current, dir)
}

// add asks for a directory.
func (w *watches) add(dir string) {
	if w.notifier == nil {
		return
	}
	w.mu.Lock()
	current := w.current[dir]
	// Set before the notifier is asked: what happens to the directory from then
	// on is notified and unsets it.
	w.current[dir] = true
	w.mu.Unlock()
	if !current {
		if err := w.notifier.Add(dir); err != nil {
			w.forget(dir)
			if !errors.Is(err, fs.ErrNotExist) {
				w.failed = err
			}
			return
		}
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

// end finishes a look and drops the directories that it has not asked for.
func (w *watches) end() {
	for dir, asked := range w.dirs {
		if !asked {
			delete(w.dirs, dir)
			w.forget(dir)
			// The kernel has dropped the watch of a directory that is gone.
			_ = w.notifier.Remove(dir)
		}
	}
}

// close ends the watches and waits for their goroutine.
func (w *watches) close() {
	if w.notifier != nil {
		_ = w.notifier.Close()
		<-w.gathered
	}
}
