// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

// BenchmarkScrape compares, on live endpoints: the whole scrape as the receiver
// does it; pdata of the same shape made of constants, which is what pdata costs
// by itself; the common way, that enters every namespace and reads /proc/net/dev and makes no
// pdata at all; and the kernel's part of the scrape alone.
//
// An operation is one scrape of all endpoints.
func BenchmarkScrape(b *testing.B) {
	const endpoints = 300
	node := netnstest.NewNode(b)
	pods := node.Pods(endpoints)

	b.Run("hnsstats", func(b *testing.B) {
		node.Enter(b)
		source, err := newSource(createDefaultConfig().(*Config), componenttest.NewNopTelemetrySettings())
		require.NoError(b, err)
		s := newScraper(metadata.NewDefaultMetricsBuilderConfig(), source, &outages{logger: zap.NewNop()}, receivertest.NewNopSettings(metadata.Type))
		require.NoError(b, s.start(b.Context(), componenttest.NewNopHost()))
		defer func() { require.NoError(b, s.shutdown(b.Context())) }()
		benchScrape(b, s, endpoints)
	})
	b.Run("pdata_of_constants", func(b *testing.B) {
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			constantMetrics(endpoints)
		}
	})
	b.Run("common_way_enter_namespaces", func(b *testing.B) {
		node.Enter(b)
		own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(b, err)
		defer unix.Close(own)
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			for _, p := range pods {
				require.NoError(b, walk(p.Path(), own))
			}
		}
	})
	b.Run("bare_RTM_GETSTATS", func(b *testing.B) {
		node.Enter(b)
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		require.NoError(b, err)
		defer unix.Close(fd)
		buf := make([]byte, 64<<10)
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			require.NoError(b, dumpStats(fd, buf))
		}
	})
}

// reportCPU adds the processor time of an operation, which other processes on
// the machine disturb less than the time by the clock.
func reportCPU(b *testing.B) func() {
	now := func() int64 {
		var usage unix.Rusage
		require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
		return usage.Utime.Nano() + usage.Stime.Nano()
	}
	before := now()
	return func() { b.ReportMetric(float64(now()-before)/float64(b.N), "cpu-ns/op") }
}

func benchScrape(b *testing.B, s *endpointScraper, endpoints int) {
	md, err := s.scrape(b.Context())
	require.NoError(b, err)
	require.Equal(b, endpoints, md.ResourceMetrics().Len())
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		if md, err = s.scrape(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	require.Equal(b, endpoints, md.ResourceMetrics().Len())
}

// constantMetrics is what a scrape makes, of the same shape and of constants,
// with no more objects than pdata itself needs.
func constantMetrics(endpoints int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	md.ResourceMetrics().EnsureCapacity(endpoints)
	for range endpoints {
		rm := md.ResourceMetrics().AppendEmpty()
		attributes := rm.Resource().Attributes()
		attributes.EnsureCapacity(2)
		attributes.PutStr("k8s.pod.ip", "10.2.0.1")
		attributes.PutInt("linux.netns.inode", 4026532246)
		rm.ScopeMetrics().EnsureCapacity(1)
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(metadata.ScopeName)
		sm.Metrics().EnsureCapacity(4)
		for _, name := range [...]string{"k8s.pod.network.errors", "k8s.pod.network.io", "k8s.pod.network.packet.count", "k8s.pod.network.packet.dropped"} {
			constantSum(sm.Metrics().AppendEmpty(), name)
		}
	}
	return md
}

func constantSum(m pmetric.Metric, name string) {
	m.SetName(name)
	m.SetDescription("a description")
	m.SetUnit("By")
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.DataPoints().EnsureCapacity(2)
	for _, direction := range [...]string{"receive", "transmit"} {
		p := sum.DataPoints().AppendEmpty()
		p.SetStartTimestamp(1)
		p.SetTimestamp(2)
		p.SetIntValue(3)
		if name == "k8s.pod.network.packet.dropped" {
			p.Attributes().EnsureCapacity(3)
			p.Attributes().PutStr("reason", "endpoint")
		} else {
			p.Attributes().EnsureCapacity(2)
		}
		p.Attributes().PutStr("network.interface.name", "eth0")
		p.Attributes().PutStr("network.io.direction", direction)
	}
}

// walk reads the counters of one namespace the common way, and does not even
// make numbers of them.
func walk(path string, own int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return err
	}
	file, err := os.Open("/proc/thread-self/net/dev")
	if err != nil {
		return errors.Join(err, unix.Setns(own, unix.CLONE_NEWNET))
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte("eth0:")) {
			bytes.Fields(lines.Bytes())
		}
	}
	return errors.Join(lines.Err(), file.Close(), unix.Setns(own, unix.CLONE_NEWNET))
}

// dumpStats asks for the counters of all links and looks at nothing but the
// end of the answer.
func dumpStats(fd int, buf []byte) error {
	var request [28]byte
	binary.NativeEndian.PutUint32(request[:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.RTM_GETSTATS)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[24] = 1 // IFLA_STATS_LINK_64's bit
	if _, err := unix.Write(fd, request[:]); err != nil {
		return err
	}
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return err
		}
		// The end comes alone or last, with 4 bytes of status.
		if n >= 20 && binary.NativeEndian.Uint16(buf[n-16:]) == unix.NLMSG_DONE {
			return nil
		}
	}
}
