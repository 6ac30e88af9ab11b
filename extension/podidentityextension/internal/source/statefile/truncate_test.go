// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// cutStep is 1, but under wine each call to the file system takes milliseconds.
var cutStep = map[bool]int{false: 1, true: 37}[runtime.GOOS == "windows"]

// TestTruncatedAtEveryByte cuts each single-file sample everywhere.
func TestTruncatedAtEveryByte(t *testing.T) {
	for format, name := range map[string]string{
		formatAzureVNet: "azure-vnet-windows.json", formatAzureCNS: "azure-endpoints-windows.json",
		formatAWSIPAMD: "aws-ipam.json", formatList: "list.json",
	} {
		t.Run(format, func(t *testing.T) {
			whole := testdata(t, name)
			text := strings.TrimRight(string(whole), "\n")
			path := temp(t, name)
			write(t, path, whole)
			r := newReader([]string{path}, formats[format], zap.NewNop())
			defer r.watches.close()
			s := newSink(t)
			rep := newReport(s, zap.NewNop())
			now := time.Now()
			rep.take(r.look(now, false), now, true)
			good := s.snapshot()
			require.NotEmpty(t, good)
			cuts := 0
			for n := len(text) - 1; n >= 0; n -= cutStep {
				cuts++
				require.NoError(t, os.Truncate(path, int64(n)))
				l := r.look(now, false)
				require.Error(t, l.err, "cut at byte %d", n)
				require.True(t, rep.take(l, now, true), "half-written for a moment is no failure")
				require.False(t, rep.take(l, now.Add(settle), true))
			}
			replaced, _, failed := s.counts()
			assert.Equal(t, 1, replaced)
			assert.Equal(t, cuts, failed)
			assert.Equal(t, good, s.snapshot())
			write(t, path, whole)
			require.NoError(t, r.look(now, false).err)
		})
	}
}

// TestYAMLTruncatedAtEveryByte cuts the one format that has no end of its own:
// what is taken at all is whole lines, never a part of a name or an address.
func TestYAMLTruncatedAtEveryByte(t *testing.T) {
	whole := testdata(t, "list.yaml")
	names, addresses := []string{"web-0", "db-0"}, addrs("10.9.0.5", "fd00::5", "10.9.0.6")
	for n := range whole {
		a, err := parseList(whole[:n])
		if err != nil {
			continue
		}
		if last := strings.TrimRight(string(whole[:n]), " "); !assert.Contains(t, "\n]}", last[len(last)-1:], "cut at byte %d", n) {
			break
		}
		for _, p := range a.pods {
			assert.Contains(t, names, p.Identity.Name, "cut at byte %d", n)
			assert.Subset(t, addresses, p.Addresses, "cut at byte %d", n)
		}
	}
	// And a part that ends with a line is not taken while it is being written.
	path := temp(t, "list.yaml")
	write(t, path, whole)
	info, err := os.Stat(path)
	require.NoError(t, err)
	r := newReader([]string{path}, formats[formatList], zap.NewNop())
	defer r.watches.close()
	assert.ErrorIs(t, r.look(info.ModTime().Add(quiet-1), false).err, errWriting)
	assert.NoError(t, r.look(info.ModTime().Add(quiet), false).err)
}

// TestLeafTruncatedAtEveryByte cuts one file of a directory everywhere, as a
// reader may find it that comes while it is being written: its pod stays as it
// was, and so does the other one.
func TestLeafTruncatedAtEveryByte(t *testing.T) {
	for _, tt := range []struct{ format, dir, leaf string }{
		{formatCNIResults, "cni-results", cniFiles[bedID]},
		{formatCilium, "cilium", "1042/ep_config.json"},
		{formatCilium, "cilium", "2665/ep_config.h"},
		{formatNerdctl, "nerdctl", "1935db59/etchosts/default/" + id("n0") + "/meta.json"},
	} {
		t.Run(tt.format+" "+filepath.Ext(tt.leaf), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", tt.dir))))
			path := filepath.Join(dir, filepath.FromSlash(tt.leaf))
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			r := newReader([]string{dir}, formats[tt.format], zap.NewNop())
			defer r.watches.close()
			s := newSink(t)
			rep := newReport(s, zap.NewNop())
			now := time.Now()
			require.False(t, rep.take(r.look(now, false), now, true))
			good := s.snapshot()
			require.Len(t, good, 2)
			need := len(whole)
			if strings.HasSuffix(path, ".h") { // the line with the state is enough
				need = strings.Index(string(whole), "\n *\n") + 1
			}
			require.NoError(t, os.Chmod(path, 0o600))
			for n := need - 1; n >= 0; n -= cutStep {
				require.NoError(t, os.Truncate(path, int64(n)))
				l := r.look(now, false)
				require.NoError(t, l.err)
				require.True(t, l.retry, "cut at byte %d", n)
				rep.take(l, now, true)
				if !assert.Equal(t, good, s.snapshot(), "cut at byte %d", n) {
					break
				}
			}
			l := r.look(now.Add(settle), false)
			require.NoError(t, l.err)
			require.Len(t, l.broken, 1, "reported once it has had time to settle")
			assert.ErrorContains(t, l.broken[0], filepath.FromSlash(tt.leaf)+": ")
			assert.Len(t, l.pods, 2)
		})
	}
}
