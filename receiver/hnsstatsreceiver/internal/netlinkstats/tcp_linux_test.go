// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/netlinkstats/netnstest"
)

func TestTCP(t *testing.T) {
	n := netnstest.NewNode(t)
	p := n.Pod()
	p.Veth("va", "eth0", "10.1.0.2/24").Veth("vb", "net1", "10.2.0.2/24")
	quiet := n.Pod().Veth("vc", "eth0", "10.3.0.2/24")
	p.Inside("link set lo up")
	s := started(n, func(s *Source) { s.cfg.TCP = true })
	require.NoError(t, p.Within(func() error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer listener.Close()
		for range 7 {
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return err
			}
			defer c.Close()
		}
		_, err = net.Dial("tcp", "127.0.0.1:1")
		require.Error(t, err)
		return nil
	}))

	got := read(n, s)
	require.NotNil(t, got[key(p, "eth0")].tcp)
	require.Nil(t, got[key(p, "net1")].tcp, "the namespace's totals are counted once")
	has := [endpoint.NumTCPEvents]bool{endpoint.ActiveOpen: true, endpoint.PassiveOpen: true, endpoint.AttemptFailed: true, endpoint.Reset: true}
	require.Equal(t, has, got[key(p, "eth0")].tcp.HasEvent)
	require.Nil(t, got[key(p, "eth0")].tcp.Packets)
	events := read(n, s)[key(p, "eth0")].tcp.Events
	require.EqualValues(t, 8, events[endpoint.ActiveOpen])
	require.EqualValues(t, 7, events[endpoint.PassiveOpen])
	require.EqualValues(t, 1, events[endpoint.AttemptFailed])
	require.Zero(t, read(n, s)[key(quiet, "eth0")].tcp.Events)

	// Whoever looks into a namespace must not keep it alive.
	p.Delete()
	netnstest.Eventually(t, "the kernel has ended the namespace", func() bool { return len(read(n, s)) == 1 })
}

func TestParseSNMP(t *testing.T) {
	b, err := os.ReadFile("testdata/snmp")
	require.NoError(t, err)
	totals, err := parseSNMP(b)
	require.NoError(t, err)
	require.Equal(t, tcpTotals{activeOpens: 1212, passiveOpens: 231, attemptFails: 759, estabResets: 211}, totals)

	for name, text := range map[string]string{
		"empty":         "",
		"names only":    "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets\n",
		"no number":     "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets\nTcp: 1 2 3 x\n",
		"too few":       "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets\nTcp: 1 2 3\n",
		"a total lacks": "Tcp: ActiveOpens PassiveOpens AttemptFails\nTcp: 1 2 3\n",
	} {
		_, err := parseSNMP([]byte(text))
		require.Error(t, err, name)
	}
}

func FuzzParseSNMP(f *testing.F) {
	b, err := os.ReadFile("testdata/snmp")
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		totals, err := parseSNMP(b)
		if err != nil {
			require.Zero(t, totals)
		}
	})
}
