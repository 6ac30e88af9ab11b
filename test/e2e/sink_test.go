// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/test/testkit"
)

// point is one data point with what its resource says, as it left the pipeline.
type point struct {
	metric               string
	pod, namespace, uid  string
	ip                   string
	netns                uint64
	iface, direction     string
	reason               string
	value                int64
	at, start            time.Time
	noValue              bool // the marker that ends a series
	resource, attributes string
}

func (p point) String() string {
	return fmt.Sprintf("%s{%s}=%d of %q/%q ip %s netns %d at %s", p.metric, p.attributes, p.value, p.namespace, p.pod, p.ip, p.netns, p.at.Format("15:04:05.000000"))
}

// series tells a point's series from any other.
func (p point) series() string { return p.metric + " " + p.resource + " " + p.attributes }

// sink reads what the file exporter writes: a line for each scrape, as long as
// nothing batches before it. It is not safe for concurrent use.
type sink struct {
	path   string
	offset int64
	read   [][]point // the scrapes so far
}

// scrapes returns all scrapes so far.
func (s *sink) scrapes(t *testing.T) [][]point {
	t.Helper()
	file, err := os.Open(s.path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	defer file.Close()
	_, err = file.Seek(s.offset, io.SeekStart)
	require.NoError(t, err)
	b, err := io.ReadAll(file)
	require.NoError(t, err)
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return s.read
		}
		metrics, err := new(pmetric.JSONUnmarshaler).UnmarshalMetrics(line)
		require.NoError(t, err)
		s.read = append(s.read, pointsOf(metrics))
		s.offset += int64(len(line) + 1)
		b = rest
	}
}

// points returns all points so far.
func (s *sink) points(t *testing.T) []point {
	t.Helper()
	return slices.Concat(s.scrapes(t)...)
}

// since returns the scrapes that have points and are stamped later than t0.
func (s *sink) since(t *testing.T, t0 time.Time) [][]point {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(s.scrapes(t)), func(points []point) bool {
		return len(points) == 0 || !points[0].at.After(t0)
	})
}

// awaitScrapes waits for n scrapes stamped later than t0.
func (s *sink) awaitScrapes(t *testing.T, t0 time.Time, n int) [][]point {
	t.Helper()
	var scrapes [][]point
	testkit.Eventually(t, patience, fmt.Sprintf("%d scrapes in %s", n, s.path), func() error {
		if scrapes = s.since(t, t0); len(scrapes) < n {
			return fmt.Errorf("%d so far", len(scrapes))
		}
		return nil
	})
	return scrapes
}

func pointsOf(metrics pmetric.Metrics) []point {
	var points []point
	for _, rm := range metrics.ResourceMetrics().All() {
		resource := rm.Resource().Attributes()
		of := point{
			pod: str(resource, "k8s.pod.name"), namespace: str(resource, "k8s.namespace.name"), uid: str(resource, "k8s.pod.uid"),
			ip: str(resource, "k8s.pod.ip"), resource: fmt.Sprint(resource.AsRaw()),
		}
		if v, ok := resource.Get("linux.netns.inode"); ok {
			of.netns = uint64(v.Int())
		}
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Type() != pmetric.MetricTypeSum {
					continue
				}
				for _, dp := range m.Sum().DataPoints().All() {
					p := of
					p.metric = m.Name()
					p.iface = str(dp.Attributes(), "network.interface.name")
					p.direction = str(dp.Attributes(), "network.io.direction")
					p.reason = str(dp.Attributes(), "reason")
					p.attributes = fmt.Sprint(dp.Attributes().AsRaw())
					p.value = dp.IntValue()
					p.at, p.start = dp.Timestamp().AsTime(), dp.StartTimestamp().AsTime()
					p.noValue = dp.Flags().NoRecordedValue()
					points = append(points, p)
				}
			}
		}
	}
	return points
}

func str(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}
