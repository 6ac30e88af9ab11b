// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func FuzzAzureVNet(f *testing.F) {
	fuzzFormat(f, formatAzureVNet, "azure-vnet-windows.json", "azure-vnet-windows-old.json", "azure-vnet-linux.json", "azure-vnet-no-pods.json")
}

func FuzzAzureCNS(f *testing.F) {
	fuzzFormat(f, formatAzureCNS, "azure-endpoints-linux.json", "azure-endpoints-windows.json")
}
func FuzzAWSIPAMD(f *testing.F)  { fuzzFormat(f, formatAWSIPAMD, "aws-ipam.json") }
func FuzzList(f *testing.F)      { fuzzFormat(f, formatList, "list.yaml", "list.json") }
func FuzzCNIResult(f *testing.F) { fuzzFormat(f, formatCNIResults, "cni-results") }
func FuzzHostLocal(f *testing.F) { fuzzFormat(f, formatHostLocal, "host-local") }
func FuzzCilium(f *testing.F)    { fuzzFormat(f, formatCilium, "cilium") }
func FuzzNerdctl(f *testing.F)   { fuzzFormat(f, formatNerdctl, "nerdctl", "nerdctl-v2") }

// fuzzFormat feeds a format's parser with its samples and what becomes of them.
func fuzzFormat(f *testing.F, format string, samples ...string) {
	for _, s := range samples {
		err := filepath.WalkDir(filepath.Join("testdata", s), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			f.Add(path, b)
			return err
		})
		require.NoError(f, err)
	}
	f.Fuzz(func(t *testing.T, path string, b []byte) {
		pods, conflicts := fuzzOnce(t, format, path, b)
		again, conflictsAgain := fuzzOnce(t, format, path, b)
		assert.Equal(t, pods, again, "the same content makes the same records")
		assert.Equal(t, conflicts, conflictsAgain)
		owners := map[string]bool{}
		for _, p := range pods {
			assert.NotEmpty(t, p.Owner)
			assert.False(t, owners[p.Owner], "an owner is reported once")
			owners[p.Owner] = true
			assert.Equal(t, p.Identity.Name == "", p.Identity.Namespace == "", "half a name is none")
			for _, a := range p.Addresses {
				normal, ok := podidentity.NormalizeAddr(a)
				assert.True(t, ok)
				assert.Equal(t, normal, a)
			}
		}
	})
}

func fuzzOnce(t *testing.T, format, path string, b []byte) ([]pod, []string) {
	a, err := formats[format].parse(path, b)
	if err != nil {
		assert.Empty(t, a.pods, "a file that is broken as a whole says nothing")
		return nil, nil
	}
	for _, p := range a.pods {
		assert.NoError(t, p.check())
	}
	pods, conflicts := merge(a.pods)
	var messages []string
	for _, err := range conflicts {
		messages = append(messages, err.Error())
	}
	return pods, messages
}

// FuzzDetectFile looks for input on which detection fails otherwise than with
// an error.
func FuzzDetectFile(f *testing.F) {
	for _, s := range []string{"azure-vnet-linux.json", "azure-endpoints-linux.json", "aws-ipam.json", "list.yaml", "list.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", s))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		format, err := detectFile(b)
		if err == nil {
			assert.Contains(t, formats, format)
		}
	})
}
