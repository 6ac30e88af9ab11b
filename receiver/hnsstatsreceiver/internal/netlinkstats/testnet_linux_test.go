// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

// counts is what the kernel says of an interface, read inside the pod the
// common way.
func counts(p *netnstest.Pod, inPod string) (c counters) {
	p.Helper()
	require.NoError(p, p.Within(func() error {
		b, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			name, values, ok := strings.Cut(line, ":")
			if !ok || strings.TrimSpace(name) != inPod {
				continue
			}
			f := strings.Fields(values)
			at := func(i int) uint64 {
				v, err := strconv.ParseUint(f[i], 10, 64)
				require.NoError(p, err)
				return v
			}
			c = counters{
				rxBytes: at(0), rxPackets: at(1), rxErrors: at(2), rxDropped: at(3),
				txBytes: at(8), txPackets: at(9), txErrors: at(10), txDropped: at(11),
			}
			return nil
		}
		return fmt.Errorf("no %s in %s", inPod, b)
	}))
	return c
}

// started is a Source in the node.
func started(n *netnstest.Node, options ...func(*Source)) *Source {
	n.Helper()
	s := New(Config{}, zaptest.NewLogger(n))
	for _, o := range options {
		o(s)
	}
	require.NoError(n, s.Start(context.Background()))
	n.Cleanup(func() { require.NoError(n, s.Close()) })
	return s
}

// sighting is what one visit said.
type sighting struct {
	*endpoint.Endpoint
	endpoint.Counters
	errors [endpoint.NumDirections]uint64
	tcp    *endpoint.TCP
}

// read is a Read without an error, by pod namespace and interface.
func read(n *netnstest.Node, s *Source) map[string]sighting {
	n.Helper()
	seen, err := collect(s)
	require.NoError(n, err)
	byName := map[string]sighting{}
	for _, e := range seen {
		key := fmt.Sprintf("%d/%s", e.NetNS, e.Interface)
		require.NotContains(n, byName, key, "visited twice")
		byName[key] = e
	}
	return byName
}

func collect(s *Source) (seen []sighting, err error) {
	err = s.Read(context.Background(), func(e *endpoint.Endpoint, c *endpoint.Counters) {
		sight := sighting{Endpoint: e, Counters: *c, errors: *c.Errors} // the pointers are valid only now
		if c.TCP != nil {
			tcp := *c.TCP
			sight.tcp = &tcp
		}
		seen = append(seen, sight)
	})
	return seen, err
}

func key(p *netnstest.Pod, inPod string) string { return fmt.Sprintf("%d/%s", p.Inode(), inPod) }

func addrs(s ...string) (list []netip.Addr) {
	for _, a := range s {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

// requireCounts compares a sighting with the kernel's counters in the pod.
// Drops are the host end's affair: see TestDrops.
func requireCounts(tb testing.TB, want counters, got sighting) {
	tb.Helper()
	const receive, transmit = endpoint.Receive, endpoint.Transmit
	require.Equal(tb, want.rxBytes, got.Bytes[receive], "bytes received")
	require.Equal(tb, want.txBytes, got.Bytes[transmit], "bytes transmitted")
	require.Equal(tb, want.rxPackets, got.Packets[receive], "packets received")
	require.Equal(tb, want.txPackets, got.Packets[transmit], "packets transmitted")
	require.Equal(tb, [2]uint64{want.rxErrors, want.txErrors}, got.errors, "errors")
}

// readStill is read at a moment when the pod's interface counts nothing: the
// kernel talks of its own accord, as for neighbour discovery.
func readStill(s *Source, p *netnstest.Pod, inPod string) (got map[string]sighting, want counters) {
	p.Helper()
	netnstest.Eventually(p, "the interface is still", func() bool {
		want = counts(p, inPod)
		got = read(p.Node, s)
		return counts(p, inPod) == want
	})
	return got, want
}
