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
	"time"
)

const (
	// tick and coarse are how long after a change the same size and time of
	// modification do not prove the same content. The clock behind the times of
	// local file systems ticks every 10 ms on Linux (at HZ=100) and every 16 ms on
	// Windows; the coarsest in use, FAT's, every 2 s, which polls allow for.
	tick   = 50 * time.Millisecond
	coarse = 3 * time.Second
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
	parse func(path string, b []byte) (answer, error)
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
//
// What is known not to have changed is not opened, for on Windows its writer
// cannot rename over a file while anybody has it open, however it is shared
// (https://github.com/rust-lang/rust/issues/123985). A file is therefore open
// for the fraction of a millisecond in which it is read, right after a change
// and not while the next one is being prepared.
func (f *file) look(now time.Time, poll bool) (changed bool, err error) {
	changed, err = f.read(now, poll)
	switch {
	case err == nil:
		f.badSince = time.Time{}
	case f.badSince.IsZero():
		f.badSince = now
	}
	return changed, err
}

func (f *file) read(now time.Time, poll bool) (changed bool, err error) {
	doubt := tick
	if poll {
		doubt = coarse
	}
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && sameVersion(f.info, info) && f.readAt.Sub(info.ModTime()) > doubt {
		return false, f.err
	}
	if err == nil {
		err = readable(info, f.limit)
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
	if age := now.Sub(info.ModTime()); f.torn && !isObject(b) && age >= 0 && age < quiet {
		f.info = nil
		return false, errWriting
	}
	var a answer
	if len(bytes.TrimSpace(b)) == 0 {
		err = errEmpty
	} else {
		a, err = f.parse(f.path, b)
	}
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

// sameVersion says whether a file's content is the same as far as its stat can
// tell.
func sameVersion(a, b os.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && sameFile(a, b)
}

// readable says why a file with such a stat is not even opened.
func readable(info os.FileInfo, limit int64) error {
	switch {
	case info.IsDir():
		return errors.New("is a directory, not a file")
	case !info.Mode().IsRegular():
		return fmt.Errorf("is no regular file but %s", info.Mode().Type())
	case info.Size() > limit:
		return errTooLarge(info.Size(), limit)
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
	if err = readable(before, limit); err != nil {
		return nil, nil, err
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
