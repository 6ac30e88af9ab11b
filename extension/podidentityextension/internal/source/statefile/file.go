// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// racy is how long after a change the same size and time of modification do
	// not prove the same content: the coarsest clock of a file system in use
	// (FAT's) ticks every 2 s.
	racy = 3 * time.Second
	// quiet is how long a list in YAML has to be left alone before it is taken as
	// whole, since a part of it that ends with a line parses as well.
	quiet = 20 * time.Millisecond
)

var (
	errEmpty   = errors.New("is empty")
	errWriting = errors.New("is being written")

	hashSeed = maphash.MakeSeed()
	bom      = []byte("\xef\xbb\xbf")
)

// file is one file that is read again only when it may have changed. It keeps
// the last good answer through everything that comes after.
type file struct {
	path  string
	limit int64
	parse func(name string, b []byte) (answer, error)
	// torn says that the file may be in YAML, a part of which can parse, too.
	torn bool

	// info, readAt, sum and err belong to the content last parsed; info is nil
	// when the file has been out of reach since.
	info   os.FileInfo
	readAt time.Time
	parsed bool
	sum    uint64
	err    error

	// good is the last good answer, nil before the first.
	good *answer
	// badSince is when the file first failed since its last good answer.
	badSince time.Time
}

// look reads the file if it may have changed. It reports whether good is new,
// or why the file cannot be read as it is now.
func (f *file) look(now time.Time) (changed bool, err error) {
	changed, err = f.read(now)
	switch {
	case err == nil:
		f.badSince = time.Time{}
	case f.badSince.IsZero():
		f.badSince = now
	}
	return changed, err
}

func (f *file) read(now time.Time) (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && sameVersion(f.info, info) && f.readAt.Sub(info.ModTime()) > racy {
		return false, f.err
	}
	if err == nil {
		err = regular(info)
	}
	var b []byte
	if err == nil {
		b, info, err = readFile(f.path, f.limit)
	}
	if err != nil {
		f.info = nil
		return false, err
	}
	sum := maphash.Bytes(hashSeed, b)
	if f.parsed && sum == f.sum {
		f.info, f.readAt = info, now
		return false, f.err
	}
	b = bytes.TrimPrefix(b, bom)
	if len(bytes.TrimSpace(b)) == 0 {
		f.info = nil
		return false, errEmpty
	}
	if age := now.Sub(info.ModTime()); f.torn && !isObject(b) && age >= 0 && age < quiet {
		f.info = nil
		return false, errWriting
	}
	a, err := f.parse(filepath.Base(f.path), b)
	if err == nil && len(a.pods) == 0 && len(a.broken) > 0 {
		// Not one readable entry is a format gone wrong, not a node without pods.
		err = fmt.Errorf("none of its %d entries could be read: %w", len(a.broken), a.broken[0])
	}
	f.info, f.readAt, f.parsed, f.sum, f.err = info, now, true, sum, err
	if err != nil {
		return false, err
	}
	for i := range a.pods {
		a.pods[i].written = info.ModTime()
	}
	f.good = &a
	return true, nil
}

// sameVersion says whether a file's content is the same as far as its size and
// its time of modification can tell.
func sameVersion(a, b os.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func regular(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("is a directory, not a file")
	case !info.Mode().IsRegular():
		return fmt.Errorf("is no regular file but %s", info.Mode().Type())
	}
	return nil
}

// readFile reads a whole file of at most limit bytes, with a handle that is
// open no longer than that takes.
func readFile(path string, limit int64) ([]byte, os.FileInfo, error) {
	f, err := openShared(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err = regular(before); err != nil {
		return nil, nil, err
	}
	if before.Size() > limit {
		return nil, nil, errTooLarge(before.Size(), limit)
	}
	b := bytes.NewBuffer(make([]byte, 0, before.Size()+bytes.MinRead))
	n, err := b.ReadFrom(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if n > limit {
		return nil, nil, errTooLarge(n, limit)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if n != before.Size() || !sameVersion(before, after) {
		return nil, nil, errWriting
	}
	return b.Bytes(), after, nil
}

func errTooLarge(size, limit int64) error {
	return fmt.Errorf("is %d bytes large, more than the limit of %d", size, limit)
}
