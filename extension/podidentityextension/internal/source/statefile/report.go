// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// maxNamed is how many broken entries a log message names.
const maxNamed = 10

// report turns looks into what the sink and the operator are told.
type report struct {
	sink source.Sink
	log  *zap.Logger
	// netNS returns the inode of the network namespace mounted at a path.
	netNS func(path string) (uint64, error)

	// pods are the merged pods of the last answer, inodes their namespaces.
	pods      []pod
	inodes    []uint64
	conflicts []error
	// begin is when each owner was first seen to hold its keys.
	begin map[string]time.Time

	answered bool
	lookedAt time.Time // when the last answer was read
	failure  string    // what the sink was told last, "" when all is well
	absent   bool      // it was logged that the file is not there yet
	broken   string    // the broken entries that were logged
}

func newReport(sink source.Sink, log *zap.Logger) *report {
	return &report{sink: sink, log: log, netNS: netNSInode, begin: map[string]time.Time{}}
}

// take reports a look. fresh asks for a report even if nothing has changed, so
// that the source's health has an age of at most one poll. It returns true when
// what was found may settle by itself and another look is due soon.
func (r *report) take(l look, now time.Time, fresh bool) (settling bool) {
	if l.err != nil {
		if now.Sub(l.since) < settle && !(errors.Is(l.err, fs.ErrNotExist) && !r.answered) {
			return true
		}
		// What is being written will be whole in a moment, however long what was
		// there before it has been bad.
		writing := errors.Is(l.err, errWriting)
		if !writing || r.failure == "" {
			r.fail(l, fresh)
		}
		return writing
	}
	if l.retry && !r.answered {
		return true
	}
	if l.changed || !r.answered {
		r.pods, r.conflicts = merge(l.pods)
		r.setBegin(l, now)
	}
	moved := false
	if l.changed || !r.answered || fresh {
		moved = r.resolveNetNS()
	}
	if l.changed || !r.answered || moved {
		r.sink.Replace(r.records(l.endsWithNetNS), r.changedAt(l.at, now))
	} else if fresh || r.failure != "" {
		r.sink.Synced()
	}
	r.logBroken(l, slices.Concat(l.broken, r.conflicts))
	if r.failure != "" || r.absent {
		r.log.Info("the state file is read", zap.String("path", l.path), zap.String("format", l.format), zap.Int("pods", len(r.pods)))
	}
	r.failure, r.absent, r.answered, r.lookedAt = "", false, true, now
	return l.retry
}

// changedAt is when a change that is seen now was made: when the file system
// says so, but not before the look that last saw the state as it was. A file
// that is moved into place may be much older than its place in it.
func (r *report) changedAt(modified, now time.Time) time.Time {
	at := modified
	if at.Before(r.lookedAt) {
		at = r.lookedAt
	}
	if at.IsZero() || at.After(now) {
		at = now
	}
	return at
}

// setBegin gives each pod the time since which it holds its keys: as the file
// says, or when its entry was written. Of a file that holds all pods, the first
// version tells nothing of when each of them was added.
func (r *report) setBegin(l look, now time.Time) {
	begin := make(map[string]time.Time, len(r.pods))
	for i := range r.pods {
		p := &r.pods[i]
		if p.Begin.After(now) {
			p.Begin = now
		}
		if p.Begin.IsZero() {
			var ok bool
			if p.Begin, ok = r.begin[p.Owner]; !ok && (l.leaves || r.answered) {
				p.Begin = r.changedAt(p.written, now)
			}
		}
		begin[p.Owner] = p.Begin
	}
	r.begin = begin
}

// resolveNetNS looks up the namespaces' inodes; true means that one has changed.
func (r *report) resolveNetNS() (changed bool) {
	inodes := make([]uint64, len(r.pods))
	for i := range r.pods {
		inodes[i] = r.inode(r.pods[i].netns)
	}
	changed = !slices.Equal(inodes, r.inodes)
	r.inodes = inodes
	return changed
}

// goneNetNS stands for a namespace that has been unmounted.
const goneNetNS = ^uint64(0)

func (r *report) inode(path string) uint64 {
	if path == "" {
		return 0
	}
	path = source.NetNSPath(path)
	inode, err := r.netNS(path)
	if err == nil {
		return inode
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	// A collector in a container may not see the directory at all.
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return 0
	}
	return goneNetNS
}

func (r *report) records(endsWithNetNS bool) []podidentity.Record {
	records := make([]podidentity.Record, 0, len(r.pods))
	for i := range r.pods {
		record := r.pods[i].Record
		record.NetNS = r.inodes[i]
		if record.NetNS == goneNetNS {
			if endsWithNetNS {
				continue
			}
			record.NetNS = 0
		}
		records = append(records, record)
	}
	return records
}

// fail reports that there is no answer. A file that has never been there is
// none that the sink needs to hear of: it may be written with the first pod.
func (r *report) fail(l look, fresh bool) {
	if !r.answered && errors.Is(l.err, fs.ErrNotExist) {
		if !r.absent {
			r.absent = true
			r.log.Warn("the state file is not there yet; its pods are known once it is",
				zap.String("path", l.path), zap.String("format", l.format))
		}
		return
	}
	err := describe(l, r.answered)
	if message := err.Error(); fresh || message != r.failure {
		r.failure = message
		r.sink.Failed(err)
	}
}

// describe says what is wrong with which file, and what to do where that is
// known.
func describe(l look, answered bool) error {
	what, hint := bare(l.err), ""
	switch {
	case errors.Is(l.err, fs.ErrNotExist):
		what = errors.New("has gone")
	case errors.Is(l.err, fs.ErrPermission):
		hint = " (run the collector as root or with CAP_DAC_READ_SEARCH, on Windows as LocalSystem)"
	}
	kept := "nothing is known from it yet"
	if answered {
		kept = "its last good answer is kept"
	}
	name := l.path
	if l.format != "" {
		name += " (" + l.format + ")"
	}
	return &fileError{message: fmt.Sprintf("state file %s: %s%s; %s", name, what, hint, kept), cause: l.err}
}

type fileError struct {
	message string
	cause   error
}

func (e *fileError) Error() string { return e.message }
func (e *fileError) Unwrap() error { return e.cause }

// logBroken tells the operator of entries that are left out, once for each set
// of them.
func (r *report) logBroken(l look, broken []error) {
	named := make([]string, len(broken))
	for i, err := range broken {
		named[i] = err.Error()
	}
	slices.Sort(named)
	all := strings.Join(named, "\n")
	if all == r.broken {
		return
	}
	r.broken = all
	if len(named) == 0 {
		r.log.Info("every entry of the state file can be read again", zap.String("path", l.path))
		return
	}
	r.log.Warn("entries of the state file cannot be read and are left out, or stay as they were",
		zap.String("path", l.path), zap.String("format", l.format),
		zap.Int("count", len(named)), zap.Strings("entries", named[:min(len(named), maxNamed)]))
}
