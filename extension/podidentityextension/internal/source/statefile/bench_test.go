// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// nullSink takes reports at no cost.
type nullSink struct{ records int }

func (s *nullSink) Replace(r []podidentity.Record, _ time.Time) { s.records = len(r) }
func (s *nullSink) Put(podidentity.Record)                      {}
func (s *nullSink) End(string, time.Time, bool)                 {}
func (s *nullSink) Synced()                                     {}
func (s *nullSink) Failed(error)                                {}
func (s *nullSink) Refresh() <-chan struct{}                    { return nil }

// azure250 is azure-vnet.json of a node with 250 pods, made from the sample.
func azure250(tb testing.TB) []byte {
	b, err := os.ReadFile(filepath.Join("testdata", "azure-vnet-windows.json"))
	require.NoError(tb, err)
	var file map[string]any
	require.NoError(tb, json.Unmarshal(b, &file))
	nics := file["Network"].(map[string]any)["ExternalInterfaces"].(map[string]any)
	network := nics["Ethernet 2"].(map[string]any)["Networks"].(map[string]any)["azure-vlan1-10-9-0-0_24"].(map[string]any)
	delete(nics, "Ethernet 3")
	endpoints := network["Endpoints"].(map[string]any)
	var one []byte
	for _, e := range endpoints {
		one, err = json.Marshal(e)
		require.NoError(tb, err)
		break
	}
	many := map[string]any{}
	for i := range 250 {
		var e map[string]any
		require.NoError(tb, json.Unmarshal(one, &e))
		container := fmt.Sprintf("%064x", i)
		e["ContainerID"], e["PODName"], e["PODNameSpace"] = container, fmt.Sprintf("web-%d", i), "shop"
		e["HnsId"] = fmt.Sprintf("41d44f3e-820a-406a-ade6-%012x", i)
		e["IPAddresses"] = []any{map[string]any{"IP": fmt.Sprintf("10.9.%d.%d", i/250, i%250+5), "Mask": "////AA=="}}
		many[container[56:]+"-eth0"] = e
	}
	network["Endpoints"] = many
	b, err = json.MarshalIndent(file, "", "\t")
	require.NoError(tb, err)
	return b
}

// BenchmarkAzureVNet250 is what a file of 250 pods costs: when it has changed
// (read, parsed, merged and reported), when it is polled and has not, its
// parsing alone, and beside it the common way to decode JSON of which a few
// fields are needed, into maps.
func BenchmarkAzureVNet250(b *testing.B) {
	text := azure250(b)
	other := bytes.Replace(text, []byte("web-0"), []byte("web-X"), 1)
	path := filepath.Join(b.TempDir(), "azure-vnet.json")
	newLooks := func(b *testing.B) (*reader, *report, *nullSink) {
		require.NoError(b, os.WriteFile(path, text, 0o600))
		r := newReader([]string{path}, formats[formatAzureVNet], zap.NewNop())
		b.Cleanup(r.watches.close)
		s := &nullSink{}
		return r, newReport(s, zap.NewNop()), s
	}
	b.Run("changed", func(b *testing.B) {
		r, rep, s := newLooks(b)
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		texts := [][]byte{text, other}
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			require.NoError(b, os.WriteFile(path, texts[i%2], 0o600))
			b.StartTimer()
			now := time.Now()
			rep.take(r.look(now, false), now, true)
		}
		require.Equal(b, 250, s.records)
	})
	b.Run("unchanged", func(b *testing.B) {
		r, rep, s := newLooks(b)
		old := time.Now().Add(-time.Minute)
		require.NoError(b, os.Chtimes(path, old, old))
		b.ReportAllocs()
		for b.Loop() {
			now := time.Now()
			rep.take(r.look(now, false), now, true)
		}
		require.Equal(b, 250, s.records)
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			a, err := parseAzureVNet(text)
			if err != nil || len(a.pods) != 250 {
				b.Fatal(len(a.pods), err)
			}
		}
	})
	b.Run("maps", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var m map[string]any
			if err := json.Unmarshal(text, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func (s *nullSink) Wanted() (labels, annotations []string) { return nil, nil }

// notifySink says when an answer has come.
type notifySink struct {
	nullSink
	answered chan struct{}
}

func (s *notifySink) Replace([]podidentity.Record, time.Time) { s.answered <- struct{}{} }

// BenchmarkRenameToReport is the time from a file's replacement to the report of
// its pods.
func BenchmarkRenameToReport(b *testing.B) {
	path := filepath.Join(b.TempDir(), "pods.json")
	require.NoError(b, os.WriteFile(path, list("a=10.0.0.1"), 0o600))
	src, err := New(&Config{Path: path, Format: formatList, PollInterval: never}, componenttest.NewNopTelemetrySettings())
	require.NoError(b, err)
	s := &notifySink{answered: make(chan struct{})}
	require.NoError(b, src.Start(b.Context(), s))
	<-s.answered
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		staged := path + ".tmp"
		require.NoError(b, os.WriteFile(staged, list(fmt.Sprintf("p%d=10.0.0.1", i)), 0o600))
		b.StartTimer()
		require.NoError(b, os.Rename(staged, path))
		<-s.answered
	}
	require.NoError(b, src.Shutdown(b.Context()))
}
