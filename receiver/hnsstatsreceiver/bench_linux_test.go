// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

// BenchmarkScrape compares, on live endpoints, what one scrape of all of them
// costs:
//
//   - hnsstats: as the receiver does it, pdata included.
//   - hnsstats_source: the same without pdata.
//   - pdata_of_constants: nothing but pdata of the same shape.
//   - namespaces: the common way, that enters every namespace and reads
//     /proc/net/dev, and does nothing with it.
//   - namespaces_pdata: the same, with numbers made of the text and pdata of the
//     numbers by the generated builder, as receivers do. It still knows no
//     address.
//   - RTM_GETSTATS: the kernel's part of a scrape.
func BenchmarkScrape(b *testing.B) {
	const endpoints = 300
	node := netnstest.NewNode(b)
	pods := node.Pods(endpoints)

	b.Run("hnsstats", func(b *testing.B) {
		s := newScraper(metadata.NewDefaultMetricsBuilderConfig(), liveSource(b, node), &outages{logger: zap.NewNop()}, receivertest.NewNopSettings(metadata.Type))
		run(b, func() error {
			md, err := s.scrape(b.Context())
			if n := md.ResourceMetrics().Len(); n != endpoints {
				return errors.Join(err, fmt.Errorf("%d endpoints", n))
			}
			return err
		})
	})
	b.Run("hnsstats_source", func(b *testing.B) {
		source := liveSource(b, node)
		run(b, func() error {
			visits := 0
			err := source.Read(b.Context(), func(*endpoint.Endpoint, *endpoint.Counters) { visits++ })
			if visits != endpoints {
				return errors.Join(err, fmt.Errorf("%d endpoints", visits))
			}
			return err
		})
	})
	b.Run("pdata_of_constants", func(b *testing.B) {
		run(b, func() error { constantMetrics(endpoints); return nil })
	})
	b.Run("namespaces", func(b *testing.B) {
		node.Enter(b)
		own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(b, err)
		defer unix.Close(own)
		run(b, func() error {
			for _, p := range pods {
				if _, err := readInside(p.Path(), own); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("namespaces_pdata", func(b *testing.B) {
		node.Enter(b)
		own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(b, err)
		defer unix.Close(own)
		s := newScraper(metadata.NewDefaultMetricsBuilderConfig(), nil, nil, receivertest.NewNopSettings(metadata.Type))
		e := endpoint.Endpoint{Interface: "eth0", NetNS: 4026532246, Addresses: []netip.Addr{netip.MustParseAddr("10.2.0.1")}}
		run(b, func() error {
			for _, p := range pods {
				text, err := readInside(p.Path(), own)
				if err != nil {
					return err
				}
				counters, err := parseDev(text)
				if err != nil {
					return err
				}
				var r row
				r.set(&counters)
				s.record(&e, &r, 1, 2)
			}
			s.builder.Emit()
			return nil
		})
	})
	b.Run("RTM_GETSTATS", func(b *testing.B) {
		node.Enter(b)
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		require.NoError(b, err)
		defer unix.Close(fd)
		buf := make([]byte, 64<<10)
		run(b, func() error { return dumpStats(fd, buf) })
	})
}

func run(b *testing.B, scrape func() error) {
	require.NoError(b, scrape()) // what is done only the first time
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		if err := scrape(); err != nil {
			b.Fatal(err)
		}
	}
}

// liveSource is started in the node. From then on it needs no thread there.
func liveSource(b *testing.B, node *netnstest.Node) endpoint.Source {
	source, err := newSource(createDefaultConfig().(*Config), componenttest.NewNopTelemetrySettings())
	require.NoError(b, err)
	require.NoError(b, node.Within(func() error { return source.Start(b.Context()) }))
	b.Cleanup(func() { require.NoError(b, source.Close()) })
	return source
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

// readInside reads /proc/net/dev of one namespace.
func readInside(path string, own int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	return text, errors.Join(err, unix.Setns(own, unix.CLONE_NEWNET))
}

// parseDev finds eth0 in /proc/net/dev.
func parseDev(text []byte) (endpoint.Counters, error) {
	for line := range bytes.Lines(text) {
		values, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("eth0:"))
		if !ok {
			continue
		}
		var numbers [16]uint64
		for i, field := range bytes.Fields(values) {
			var err error
			if numbers[i], err = strconv.ParseUint(string(field), 10, 64); err != nil {
				return endpoint.Counters{}, err
			}
		}
		return endpoint.Counters{
			Bytes:   [2]uint64{numbers[0], numbers[8]},
			Packets: [2]uint64{numbers[1], numbers[9]},
			Errors:  &[2]uint64{numbers[2], numbers[10]},
			Dropped: [2]uint64{numbers[3], numbers[11]},
		}, nil
	}
	return endpoint.Counters{}, errors.New("no eth0")
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
