// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// cniFiles are the names of the sample's files that name pods.
var cniFiles = map[string]string{bedID: "bed-" + bedID + "-eth0", bedptpID: "bedptp-" + bedptpID + "-eth0"}

func copyCNIResult(t *testing.T, dir, id string) string {
	t.Helper()
	path := filepath.Join(dir, cniFiles[id])
	write(t, path, testdata(t, filepath.Join("cni-results", cniFiles[id])))
	return path
}

func TestCNIResults(t *testing.T) {
	dir := t.TempDir()
	s, _ := watch(t, dir, formatCNIResults)
	s.waitNames() // an empty directory is an answer
	bed := copyCNIResult(t, dir, bedID)
	written := time.Now()
	s.waitNames("demo/p-0")
	info, err := os.Stat(bed)
	require.NoError(t, err)
	// The file's time, or that of the look before it: a file system's clock may be
	// some milliseconds behind.
	assert.WithinRange(t, s.snapshot()[bedID].Begin, info.ModTime(), written)
	bedptp := copyCNIResult(t, dir, bedptpID)
	s.waitNames("demo/p-0", "demo/ptp-0")
	require.NoError(t, os.Remove(bed))
	s.waitNames("demo/ptp-0")
	require.NoError(t, os.Remove(bedptp))
	s.waitNames()
	_, _, failed := s.counts()
	assert.Zero(t, failed)
}

// TestTreeKeepsTheLastAnswer has a directory that cannot be read any more.
func TestTreeKeepsTheLastAnswer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		spoil   func(t *testing.T, dir string)
		failure string
	}{
		{"removed", func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) }, "has gone"},
		{"moved away", func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+"-old")) }, "has gone"},
		{"a file in its place", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			write(t, dir, []byte("{}"))
		}, "is a file, but the format cni-results is a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && tt.name != "moved away" {
				t.Skip("under wine a directory removed while it is being watched stays until the watch ends")
			}
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "lib", "results")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			copyCNIResult(t, dir, bedID)
			s, _ := watch(t, dir, formatCNIResults)
			s.waitNames("demo/p-0")
			tt.spoil(t, dir)
			s.waitFailure(tt.failure)
			// Who removes a directory removes its files first, which ends their pods.
			if tt.name == "moved away" {
				assert.Equal(t, []string{"demo/p-0"}, s.names())
			}
			_ = os.Remove(dir)
			require.NoError(t, os.MkdirAll(dir, 0o700))
			copyCNIResult(t, dir, bedptpID)
			s.waitNames("demo/ptp-0")
		})
	}
}

// TestBrokenLeafIsNamed has a file that stays half-written: the operator is
// told which, and that it has ended.
func TestBrokenLeafIsNamed(t *testing.T) {
	dir := t.TempDir()
	bed := copyCNIResult(t, dir, bedID)
	copyCNIResult(t, dir, bedptpID)
	s, logs := watch(t, dir, formatCNIResults)
	s.waitNames("demo/p-0", "demo/ptp-0")
	write(t, bed, []byte(`{"kind":"cni`))
	require.Eventually(t, func() bool { return len(messages(logs, zapcore.WarnLevel)) > 0 }, 20*time.Second, time.Millisecond)
	warned := logs.FilterLevelExact(zapcore.WarnLevel).All()
	require.Len(t, warned, 1)
	assert.Equal(t, []any{cniFiles[bedID] + ": unexpected end of JSON input"}, warned[0].ContextMap()["entries"])
	assert.Equal(t, []string{"demo/p-0", "demo/ptp-0"}, s.names())
	require.NoError(t, os.Remove(bed))
	s.waitNames("demo/ptp-0")
	require.Eventually(t, func() bool {
		return logs.FilterMessage("every entry of the state file can be read again").Len() == 1
	}, 20*time.Second, time.Millisecond)
}

// TestAnotherContainerTakesAReservation has host-local's file of an address
// with another container in it: the old one ends where the new one begins.
func TestAnotherContainerTakesAReservation(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "net"), 0o700))
	path := filepath.Join(dir, "net", "10.0.0.1")
	write(t, path, []byte("old\r\neth0"))
	s, _ := watch(t, dir, formatHostLocal)
	s.wait("the old one", func() bool { return len(s.records) == 1 && s.records["old"].Sandbox == "old" })
	require.NoError(t, os.Remove(path))
	write(t, path, []byte("new\r\neth0"))
	s.wait("the new one", func() bool { return len(s.records) == 1 && s.records["new"].Sandbox == "new" })
	assert.False(t, s.lastAt().After(s.snapshot()["new"].Begin), "ended at %s, began at %s", s.lastAt(), s.snapshot()["new"].Begin)
	// A network that comes later.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "net2"), 0o700))
	write(t, filepath.Join(dir, "net2", "fd00__2"), []byte("new\r\neth1"))
	s.wait("both addresses", func() bool { return len(s.records["new"].Addresses) == 2 })
}

// TestCiliumMovesADirectoryIntoPlace has the moment in which an endpoint's
// directory is under another name.
func TestCiliumMovesADirectoryIntoPlace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/cilium")))
	r := newReader([]string{dir}, formats[formatCilium], zap.NewNop())
	defer r.watches.close()
	now := time.Now()
	require.Len(t, r.look(now, false).pods, 2)
	endpoint := filepath.Join(dir, "1042")
	require.NoError(t, os.Rename(endpoint, endpoint+ciliumStale))
	l := r.look(now, false)
	assert.Len(t, l.pods, 2)
	assert.False(t, l.changed)
	require.NoError(t, os.Mkdir(endpoint, 0o700))
	write(t, filepath.Join(endpoint, "ep_config.json"), testdata(t, "cilium/1042/ep_config.json"))
	l = r.look(now, false)
	assert.Len(t, l.pods, 2)
	assert.False(t, l.changed)
	require.NoError(t, os.RemoveAll(endpoint))
	require.NoError(t, os.RemoveAll(endpoint+ciliumStale))
	l = r.look(now, false)
	assert.Len(t, l.pods, 1)
	assert.True(t, l.changed)
}

func TestNerdctlFromNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "nerdctl")
	s, _ := watch(t, root, formatNerdctl)
	require.NoError(t, os.CopyFS(root, os.DirFS("testdata/nerdctl")))
	s.waitNames("default/web", "default/db")
	meta := filepath.Join(root, "1935db59", "etchosts", "default", id("n0"), nerdctlMeta)
	require.NoError(t, os.Chmod(meta, 0o600))
	require.NoError(t, os.Remove(meta))
	s.waitNames("default/db")
}

// TestChurn has pods that come and go in place while the source reads, and
// compares what it knows at the end with what is there.
func TestChurn(t *testing.T) {
	dir := t.TempDir()
	s := newSink(t)
	start(t, &Config{Path: dir, Format: formatCNIResults, PollInterval: 5 * time.Millisecond}, s)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 100 {
				id := fmt.Sprintf("c%d-%d", w, i)
				b := fmt.Appendf(nil, `{"kind":"cniCacheV1","containerId":%q,"ifName":"eth0","networkName":"n","cniArgs":[["K8S_POD_NAME",%q],["K8S_POD_NAMESPACE","n"]],
					"result":{"ips":[{"address":"10.%d.0.%d/24"}]}}`, id, id, w, i%8)
				path := filepath.Join(dir, "n-"+id+"-eth0")
				assert.NoError(t, os.WriteFile(path, b, 0o600))
				if i < 90 {
					assert.NoError(t, os.Remove(path))
				}
			}
		})
	}
	writers.Wait()
	var want []string
	for w := range 4 {
		for i := 90; i < 100; i++ {
			want = append(want, fmt.Sprintf("n/c%d-%d", w, i))
		}
	}
	s.waitNames(want...)
	_, _, failed := s.counts()
	assert.Zero(t, failed)
}
