// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// list is a list of pods in one namespace, "name=address" each.
func list(pods ...string) []byte {
	var b strings.Builder
	b.WriteString(`{"pods":[`)
	for i, p := range pods {
		if i > 0 {
			b.WriteString(",")
		}
		name, addr, _ := strings.Cut(p, "=")
		fmt.Fprintf(&b, `{"name":%q,"namespace":"n","addresses":[%q]}`, name, addr)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// replace does what the writers of azure-vnet, azure-cns and aws-ipamd do.
func replace(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path))
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	if runtime.GOOS == "windows" {
		// A rename fails while the source has the file open, and this writer has
		// no pause between its renames.
		require.Eventually(t, func() bool { return os.Rename(f.Name(), path) == nil }, 20*time.Second, time.Millisecond)
		return
	}
	require.NoError(t, os.Rename(f.Name(), path))
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

func TestReplacedByRename(t *testing.T) {
	path := temp(t, "azure-vnet.json")
	write(t, path, testdata(t, "azure-vnet-linux.json"))
	s, _ := watch(t, path, formatAzureVNet)
	s.waitNames("shop/db-0", "shop/db-1")
	replace(t, path, testdata(t, "azure-vnet-windows.json"))
	s.waitNames("shop/api-7d9c", "shop/api-7d9c", "shop/web-0", "lab/two-nics-0")
	replace(t, path, testdata(t, "azure-vnet-no-pods.json"))
	s.waitNames()
	replace(t, path, testdata(t, "azure-vnet-linux.json"))
	s.waitNames("shop/db-0", "shop/db-1")
}

func TestRewrittenInPlace(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	s, _ := watch(t, path, formatList)
	s.waitNames("n/a")
	// The same address, at once, to another pod.
	write(t, path, list("b=10.0.0.1"))
	s.waitNames("n/b")
}

func TestAByteOrderMarkIsNoContent(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, append([]byte("\xef\xbb\xbf"), list("a=10.0.0.1")...))
	s, _ := watch(t, path, "")
	s.waitNames("n/a")
}

// TestBadFileKeepsTheLastAnswer has what can become of a good file. Each time
// the last good answer stays, the failure names the file and the reason, and
// the next good content is taken.
func TestBadFileKeepsTheLastAnswer(t *testing.T) {
	good := list("a=10.0.0.1")
	garbage := make([]byte, 50<<20)
	_, err := rand.Read(garbage)
	require.NoError(t, err)
	for _, tt := range []struct {
		name    string
		spoil   func(t *testing.T, path string)
		failure string
	}{
		{"emptied", func(t *testing.T, path string) { write(t, path, nil) }, "is empty"},
		{"white space", func(t *testing.T, path string) { write(t, path, []byte(" \n")) }, "is empty"},
		{"truncated", func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 20)) }, "unexpected end of JSON input"},
		{"50 MB of garbage", func(t *testing.T, path string) { replace(t, path, garbage) }, "is 52428800 bytes large, more than the limit of 8388608"},
		{"8 MB of garbage", func(t *testing.T, path string) { replace(t, path, garbage[:maxFile]) }, "YAML"},
		{"8 MB of brackets", func(t *testing.T, path string) {
			replace(t, path, []byte(`{"pods":`+strings.Repeat("[", maxFile-8)))
		}, "exceeded max depth"},
		{"another kind of state", func(t *testing.T, path string) { replace(t, path, []byte(`{"Network":{}}`)) }, `has no "pods" list`},
		{"not one readable entry", func(t *testing.T, path string) { replace(t, path, list("a=x", "b=y")) }, `none of its 2 entries could be read: pods[0] (name "a"): addresses: address "x"`},
		{"removed", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "has gone"},
		{"its directory removed", func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) }, "has gone"},
		{"a directory in its place", func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		}, "is a directory, not a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(temp(t, "state"), "pods.json")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			write(t, path, good)
			s, _ := watch(t, path, formatList)
			s.waitNames("n/a")

			tt.spoil(t, path)
			s.waitFailure("state file " + path + " (list): ")
			s.waitFailure(tt.failure)
			s.waitFailure("; its last good answer is kept")
			assert.Equal(t, []string{"n/a"}, s.names())
			replaced, _, failed := s.counts()
			assert.Equal(t, 1, replaced, "no answer in between")
			assert.Equal(t, 1, failed, "reported once")

			// Good again, first the same and then another content.
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				require.NoError(t, os.Remove(path))
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			replace(t, path, good)
			s.waitNames("n/a")
			replace(t, path, list("b=10.0.0.2"))
			s.waitNames("n/b")
		})
	}
}

// TestGarbageTakesNoMemory looks at a file too large to be one: it is not read.
// A list in YAML is left alone for a moment after it was written. When the file
// before it was bad, the next look must not be left to the poll.
func TestFreshYAMLAfterABadFile(t *testing.T) {
	path := temp(t, "pods.yaml")
	write(t, path, []byte("hello world\n"))
	s, _ := watch(t, path, formatList)
	s.waitFailure("state file " + path)
	replace(t, path, []byte("pods: [{name: a, namespace: n, addresses: [10.0.0.1]}]\n"))
	s.waitNames("n/a")
}

func TestGarbageTakesNoMemory(t *testing.T) {
	path := temp(t, "pods.json")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 50<<20))
	r := newReader([]string{path}, formats[formatList], zap.NewNop())
	defer r.watches.close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := r.look(time.Now(), false)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, l.err, "more than the limit")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestAbsent(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		path := temp(t, "pods.json")
		s, logs := watch(t, path, formatList)
		write(t, path, list("a=10.0.0.1"))
		s.waitNames("n/a")
		_, synced, failed := s.counts()
		assert.Zero(t, synced, "an absent file is no answer")
		assert.Zero(t, failed, "an absent file is no failure")
		// The file may have been there before the first look.
		for _, m := range messages(logs, zapcore.WarnLevel) {
			assert.Equal(t, "the state file is not there yet; its pods are known once it is", m)
		}
	})
	t.Run("said once", func(t *testing.T) {
		s := newSink(t)
		logs := start(t, &Config{Path: temp(t, "pods.json"), Format: formatList, PollInterval: time.Millisecond}, s)
		require.Eventually(t, func() bool { return logs.Len() > 0 }, 20*time.Second, time.Millisecond)
		for range 10 { // each is taken only when the one before has been
			s.refresh <- struct{}{}
		}
		assert.Equal(t, []string{"the state file is not there yet; its pods are known once it is"}, messages(logs, zapcore.WarnLevel))
		replaced, synced, failed := s.counts()
		assert.Zero(t, replaced+synced+failed)
	})
	t.Run("directories", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a", "b", "pods.json")
		s := newSink(t)
		poll := never
		if runtime.GOOS == "windows" { // where a move of a watched directory is not notified
			poll = 10 * time.Millisecond
		}
		start(t, &Config{Path: path, Format: formatList, PollInterval: poll}, s)
		require.NoError(t, os.Mkdir(filepath.Dir(filepath.Dir(path)), 0o700))
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		write(t, path, list("a=10.0.0.1"))
		s.waitNames("n/a")
		// And the directory replaced by another of its name.
		require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+"-old"))
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		write(t, path, list("b=10.0.0.2"))
		s.waitNames("n/b")
		write(t, path, list("c=10.0.0.3"))
		s.waitNames("n/c")
	})
}

func TestBadFromTheBeginning(t *testing.T) {
	path := temp(t, "x")
	write(t, path, []byte("hello\n"))
	s, logs := watch(t, path, "")
	s.waitFailure("state file " + path + ": the format cannot be told: it is neither a JSON object nor YAML with a list of pods; set format; nothing is known from it yet")
	replace(t, path, list("a=10.0.0.1"))
	s.waitNames("n/a")
	require.Eventually(t, func() bool { return len(messages(logs, zapcore.InfoLevel)) > 0 }, 20*time.Second, time.Millisecond)
	assert.Equal(t, []string{"the state file is read"}, messages(logs, zapcore.InfoLevel))
}

func TestEmptyDirectoryIsDetectedOnceItHasAFile(t *testing.T) {
	dir := t.TempDir()
	s, _ := watch(t, dir, "")
	s.waitFailure("the format cannot be told: it has none of the files of cni-results, host-local, cilium or nerdctl; set format")
	copyCNIResult(t, dir, bedID)
	s.waitNames("demo/p-0")
}

// TestUnchanged has a file that is polled and does not change: health stays
// fresh, and nothing is reported anew.
func TestUnchanged(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	s := newSink(t)
	start(t, &Config{Path: path, Format: formatList, PollInterval: time.Millisecond}, s)
	s.wait("ten polls", func() bool { return s.synced >= 10 })
	replace(t, path, list("a=10.0.0.1")) // another file with the same content
	_, n, _ := s.counts()
	s.wait("ten more polls", func() bool { return s.synced >= n+10 })
	replaced, _, failed := s.counts()
	assert.Equal(t, 1, replaced)
	assert.Zero(t, failed)
}

// TestUnchangedIsNotOpened has a file whose stat is old enough to be trusted.
func TestUnchangedIsNotOpened(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	parsed := 0
	f := &file{path: path, limit: maxFile, parse: func(_ string, b []byte) (answer, error) { parsed++; return parseList(b) }}
	info, err := os.Stat(path)
	require.NoError(t, err)
	now := info.ModTime().Add(tick + 1)
	changed, err := f.look(now, false)
	require.NoError(t, err)
	assert.True(t, changed)
	// With another content behind the same stat, which only opening it would show.
	write(t, path, list("b=10.0.0.1"))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	changed, err = f.look(now.Add(tick), false)
	require.NoError(t, err)
	assert.False(t, changed)
	assert.Equal(t, 1, parsed)
	// A poll allows for file systems with coarse times.
	changed, err = f.look(now.Add(tick), true)
	require.NoError(t, err)
	assert.True(t, changed)
}

// TestSameSizeAndTime has a change within one tick of the clock.
func TestSameSizeAndTime(t *testing.T) {
	path := temp(t, "pods.json")
	stamp := time.Now()
	now := stamp.Add(tick / 2)
	write(t, path, list("a=10.0.0.1"))
	require.NoError(t, os.Chtimes(path, stamp, stamp))
	r := newReader([]string{path}, formats[formatList], zap.NewNop())
	defer r.watches.close()
	require.True(t, r.look(now, false).changed)
	write(t, path, list("b=10.0.0.1"))
	require.NoError(t, os.Chtimes(path, stamp, stamp))
	l := r.look(now, false)
	require.True(t, l.changed)
	assert.Equal(t, "b", l.pods[0].Identity.Name)
}

func TestALockBesideIt(t *testing.T) {
	path := temp(t, "azure-vnet.json")
	write(t, path, testdata(t, "azure-vnet-linux.json"))
	write(t, path+".lock", []byte("4242"))
	s, _ := watch(t, path, "")
	s.waitNames("shop/db-0", "shop/db-1")
	for range 20 {
		require.NoError(t, os.Remove(path+".lock"))
		write(t, path+".lock", []byte("4242"))
	}
	replace(t, path, testdata(t, "azure-vnet-windows.json"))
	s.waitNames("shop/api-7d9c", "shop/api-7d9c", "shop/web-0", "lab/two-nics-0")
	_, _, failed := s.counts()
	assert.Zero(t, failed)
}

// TestTimesOfChange has the times between which a pod holds its keys.
func TestTimesOfChange(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	s, _ := watch(t, path, formatList)
	s.waitNames("n/a")
	assert.True(t, s.snapshot()["n/a"].Begin.IsZero(), "a pod that was there first began at an unknown time")

	replace(t, path, list("b=10.0.0.1"))
	replaced := time.Now()
	s.waitNames("n/b")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.False(t, s.lastAt().Before(info.ModTime()), "the old pod ended when the new file was there")
	assert.False(t, s.lastAt().After(replaced), "and not when it was noticed")
	assert.Equal(t, s.lastAt(), s.snapshot()["n/b"].Begin, "which is when the new one began")

	// A file older than its place in it.
	old := time.Now().Add(-time.Hour)
	staged := path + ".staged"
	write(t, staged, list("c=10.0.0.1"))
	require.NoError(t, os.Chtimes(staged, old, old))
	before := s.lastAt()
	require.NoError(t, os.Rename(staged, path))
	s.waitNames("n/c")
	assert.False(t, s.lastAt().Before(before), "not before what was seen of the old file")
	assert.Equal(t, s.lastAt(), s.snapshot()["n/c"].Begin)
}

// TestRefresh has a change that nothing notifies: the namespace of a path.
func TestRefresh(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, []byte(`{"pods":[{"name":"a","namespace":"n","addresses":["10.0.0.1"],"netns":"/var/run/netns/a"}]}`))
	src, err := New(&Config{Path: path, Format: formatList, PollInterval: never}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	inode := make(chan uint64, 1)
	inode <- 0
	src.(*stateFile).report.netNS = func(string) (uint64, error) {
		i := <-inode
		inode <- i
		if i == 0 {
			return 0, fs.ErrNotExist
		}
		return i, nil
	}
	s := newSink(t)
	require.NoError(t, src.Start(t.Context(), s))
	defer func() { assert.NoError(t, src.Shutdown(context.Background())) }()
	s.waitNames("n/a")
	assert.Zero(t, s.snapshot()["n/a"].NetNS)
	<-inode
	inode <- 4026532000
	s.refresh <- struct{}{}
	s.wait("the inode", func() bool { return s.records["n/a"].NetNS == 4026532000 })
}

// TestLostNotificationsCauseALook has the notifier report that it lost some.
func TestLostNotificationsCauseALook(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	w := newWatches(zap.New(core))
	events, errs := make(chan fsnotify.Event), make(chan error)
	done := make(chan struct{})
	go func() { defer close(done); w.gather(events, errs) }()
	errs <- fsnotify.ErrEventOverflow
	<-w.changed
	assert.Equal(t, 1, logs.FilterMessage("notifications of changes were lost; looking at all of the state file again").Len())
	// Any number of notifications is one look, and none waits for it.
	for range 100 {
		events <- fsnotify.Event{Name: "x", Op: fsnotify.Write}
	}
	<-w.changed
	close(events)
	close(errs)
	<-done
}

func TestStartAndShutdown(t *testing.T) {
	src, err := New(&Config{Path: temp(t, "x"), Format: formatList, PollInterval: never}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, src.Shutdown(t.Context()), "without Start")
	s := newSink(t)
	require.NoError(t, src.Start(t.Context(), s))
	assert.ErrorIs(t, src.Start(t.Context(), s), errStarted)
	require.NoError(t, src.Shutdown(t.Context()))
	require.NoError(t, src.Shutdown(t.Context()))

	_, err = New(&Config{PollInterval: never}, componenttest.NewNopTelemetrySettings())
	assert.ErrorContains(t, err, "path: is empty")
}

// TestShutdownDoesNotWaitForever has a sink that holds the source's goroutine.
func TestShutdownDoesNotWaitForever(t *testing.T) {
	path := temp(t, "pods.json")
	write(t, path, list("a=10.0.0.1"))
	s := newSink(t)
	s.hold = make(chan struct{})
	src, err := New(&Config{Path: path, Format: formatList, PollInterval: never}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, src.Start(t.Context(), s))
	<-s.holding
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, src.Shutdown(ctx), context.DeadlineExceeded)
	close(s.hold)
	assert.NoError(t, src.Shutdown(t.Context()))
}
