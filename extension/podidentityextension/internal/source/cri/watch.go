// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// maxDirs bounds the directories to watch; runtimes have one.
const maxDirs = 8

// A watcher turns network namespaces that come and go into hints. They lie as
// files in one directory (/run/netns), which a runtime without events is as
// quick to write as one with them, and nothing that reads too slowly can hold a
// runtime up. It matters most for the end of a sandbox: its address, and the
// number of its namespace, can be another pod's in a moment.
type watcher struct {
	hint   func()
	logger *zap.Logger

	files *fsnotify.Watcher
	dirs  map[string]struct{}
	ended sync.WaitGroup
}

// watch watches the directory in which a namespace's file lies.
func (w *watcher) watch(netns string) {
	if netns == "" || strings.HasPrefix(netns, "/proc/") {
		return
	}
	dir := filepath.Dir(source.NetNSPath(netns))
	if _, has := w.dirs[dir]; has || len(w.dirs) >= maxDirs {
		return
	}
	if w.dirs == nil {
		w.dirs = map[string]struct{}{}
	}
	w.dirs[dir] = struct{}{}
	if err := w.add(dir); err != nil {
		w.logger.Info("Cannot watch the directory of network namespaces; pods are found when the sandboxes are listed",
			zap.String("directory", dir), zap.Error(err))
		return
	}
	w.hint() // what happened before it was watched
}

func (w *watcher) add(dir string) error {
	if w.files == nil {
		files, err := fsnotify.NewWatcher()
		if err != nil {
			return err
		}
		w.files = files
		w.ended.Go(w.drain)
	}
	return w.files.Add(dir)
}

func (w *watcher) drain() {
	for {
		select {
		case event, ok := <-w.files.Events:
			if !ok {
				return
			}
			if event.Has(fsnotify.Create) || event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
				w.hint()
			}
		case _, ok := <-w.files.Errors: // some events were lost
			if !ok {
				return
			}
			w.hint()
		}
	}
}

func (w *watcher) close() {
	if w.files != nil {
		_ = w.files.Close()
		w.ended.Wait()
	}
}
