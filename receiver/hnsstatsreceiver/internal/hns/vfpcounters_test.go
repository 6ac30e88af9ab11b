// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// sampleCounters are the numbers in every file of testdata/counters.
var sampleCounters = portCounters{
	value: [endpoint.NumDirections][numCounters]uint64{
		endpoint.Transmit: {1101, 1102, 1103, 1104, 1105, 6, 7, 8, 9, 10, 11, 1106},
		endpoint.Receive:  {2000201, 202, 203, 204, 205, 16, 17, 18, 19, 20, 21, 206},
	},
	has: [numCounters]bool{true, true, true, true, true, true, true, true, true, true, true, true},
}

func samples(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", filepath.FromSlash(pattern)))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := make(map[string][]byte, len(files))
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		all[filepath.Base(f)] = b
	}
	return all
}

func TestParseCountersSamples(t *testing.T) {
	for name, b := range samples(t, "counters/*") {
		t.Run(name, func(t *testing.T) {
			c, isJSON, err := parseCounters(b)
			require.NoError(t, err)
			assert.Equal(t, sampleCounters, *c)
			assert.Equal(t, strings.HasSuffix(name, ".json"), isJSON)
		})
	}
}

// An answer is never read in part: cut anywhere, it is the whole or an error.
func TestParseCountersTruncated(t *testing.T) {
	for name, b := range samples(t, "counters/*") {
		t.Run(name, func(t *testing.T) {
			for n := range b {
				c, _, err := parseCounters(b[:n])
				if err != nil {
					continue
				}
				for i := range numCounters {
					if !c.has[i] {
						continue
					}
					for d := range endpoint.NumDirections {
						// The last number itself can be cut short.
						got, want := c.value[d][i], sampleCounters.value[d][i]
						require.Truef(t, got == want || n > len(b)/2 && i == aclDropped && got < want,
							"cut at %d: %s is %d, not %d", n, i, got, want)
					}
				}
			}
		})
	}
}

func TestParseCountersPartOfTheCounters(t *testing.T) {
	text := "Direction - IN\nFIN packets : 3\nDirection - OUT\nFIN packets : 4\n"
	c, _, err := parseCounters([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, [numCounters]bool{endpoint.FIN: true}, c.has, "a counter that isn't there is not zero")
	assert.EqualValues(t, 3, c.value[endpoint.Receive][endpoint.FIN])
	assert.EqualValues(t, 4, c.value[endpoint.Transmit][endpoint.FIN])
}

func TestParseCountersErrors(t *testing.T) {
	const in, out = "Direction - IN\nSYN packets : 1\n", "Direction - OUT\nSYN packets : 2\n"
	for name, tt := range map[string]struct{ answer, want string }{
		"nothing":                       {"", "no port counters"},
		"ERROR":                         {"ERROR: failed to open port x\r\nError (2): not found", "refused: ERROR: failed to open port x Error (2): not found"},
		"a locale's word for direction": {"Richtung - OUT\nSYN packets : 1\n", "before any direction"},
		"a locale's word for IN":        {"Direction - EIN\nSYN packets : 1\n", `unknown direction "Direction - EIN"`},
		"a locale's names":              {"Direction - IN\nSYN-Pakete : 1\nDirection - OUT\nSYN-Pakete : 2\n", "no port counters in vfpctrl's answer: Direction - IN SYN-Pakete : 1"},
		"a locale's digits":             {"Direction - IN\nSYN packets : ١٢\n" + out, `"١٢" is no whole number`},
		"no value":                      {"Direction - IN\nSYN packets :\n" + out, `"" is no whole number`},
		"a decimal":                     {"Direction - IN\nSYN packets : 12.5\n" + out, `"12.5" is no whole number`},
		"two separators":                {"Direction - IN\nSYN packets : 1.234,567\n" + out, "is no whole number"},
		"negative":                      {"Direction - IN\nSYN packets : -1\n" + out, "is no whole number"},
		"more than 64 bits":             {"Direction - IN\nSYN packets : 18446744073709551616\n" + out, "larger than 64 bits"},
		"one direction":                 {in, "no port counters"},
		"a direction twice":             {in + out + in, "direction IN twice"},
		"a counter twice":               {in + "SYN packets : 3\n" + out, `counter "SYN packets" twice`},
		"a counter in one direction":    {in + "FIN packets : 3\n" + out, `"FIN packets" is there for one direction only`},
		"JSON cut short":                {`{"InformationArray":{"PortCounters":[{"Direction":0`, "no valid JSON"},
		"JSON of something else":        {`{"Error":"no"}`, "no port counters"},
		"JSON without direction":        {`{"PortCounters":[{"TcpSynPackets":1}]}`, "unknown Direction"},
		"JSON with a third direction":   {`{"PortCounters":[{"Direction":2,"TcpSynPackets":1}]}`, `unknown Direction "2"`},
		"JSON with a decimal":           {`{"PortCounters":[{"Direction":0,"TcpSynPackets":1.234}]}`, `"TcpSynPackets"`},
		"JSON with null":                {`{"PortCounters":[{"Direction":0,"TcpSynPackets":null}]}`, `"TcpSynPackets"`},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := parseCounters([]byte(tt.answer))
			require.ErrorContains(t, err, tt.want)
			assert.Nil(t, c)
		})
	}
}

func TestParseCount(t *testing.T) {
	for s, want := range map[string]uint64{
		"0": 0, " 7 ": 7, "1234": 1234, "1,234": 1234, "1.234.567": 1234567, "1 234": 1234, "1'234": 1234, "1’234": 1234,
		"12,34,567": 1234567, "18446744073709551615": 1<<64 - 1, "18,446,744,073,709,551,615": 1<<64 - 1, "007": 7,
	} {
		v, err := parseCount(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, v, s)
	}
	for _, s := range []string{"", "-", "1,", ",1", "1,23", "1234,567", "1,2,345", "0x10", "1e3", "1,234.567", "12 MB", "99999999999999999999"} {
		_, err := parseCount(s)
		require.Error(t, err, s)
	}
}

func TestCounterNamed(t *testing.T) {
	for _, c := range []struct {
		want  counter
		names string
	}{
		{counter(endpoint.SYN), "SYN packets|TcpSynPackets|SYNPackets|tcp_syn_packets|TCP SYN Packet Count"},
		{counter(endpoint.SYNACK), "SYN-ACK packets|TcpSynAckPackets|SYNACK packets|Syn Ack Packets"},
		{counter(endpoint.FIN), "FIN packets|TcpFinPackets|FINPackets"},
		{counter(endpoint.RST), "RST packets|TcpResetPackets|TcpRstPackets|RSTPackets"},
		{firstEvent + counter(endpoint.Verified), "TCP Connections Verified|TcpConnectionsVerified|TCPConnectionsVerified"},
		{firstEvent + counter(endpoint.TimedOut), "TCP Connections Timed Out|TcpConnectionsTimedOut|TcpConnectionTimeouts"},
		{firstEvent + counter(endpoint.Reset), "TCP Connections Reset|TcpConnectionsResets|TcpConnectionsReset"},
		{firstEvent + counter(endpoint.ResetSYN), "TCP Connections Reset by SYN|TcpConnectionsResetBySyn|TCPConnectionsResetBySYN"},
		{firstEvent + counter(endpoint.ClosedFIN), "TCP Connections Closed by FIN|TcpConnectionsClosedByFin"},
		{firstEvent + counter(endpoint.HalfOpenTimeout), "TCP Half Open Timeouts|TcpHalfOpenTimeouts|TcpHalfOpenConnectionTimeouts|TCP Half-Open Time Outs"},
		{firstEvent + counter(endpoint.TimeWaitExpired), "TCP Connections Expired to Time Wait|TcpConnectionsExpiredTimeWait|TcpConnectionsExpiredToTimeWait|TcpConnectionsTimeWaitExpired"},
		{aclDropped, "Dropped ACL packets|DroppedAcl|DroppedAclPackets|ACL Drops"},
	} {
		for name := range strings.SplitSeq(c.names, "|") {
			got, ok := counterNamed(name)
			assert.Truef(t, ok && got == c.want, "%q is %v %t, not %v", name, got, ok, c.want)
		}
	}
	for _, name := range []string{
		"", "TcpConnectionsResetHalfTTL", "TcpConnectionsResetByInjectedReset", "TotalPackets", "DroppedPackets", "PendingPackets",
		"Dropped ACL bytes", "SYN bytes", "TCP Connections", "SYN packets 2", "Verified", "SYN pakete", "Dropped Forwarding packets",
	} {
		got, ok := counterNamed(name)
		assert.Falsef(t, ok, "%q is taken for %v", name, got)
	}
}

func FuzzParseCounters(f *testing.F) {
	for _, b := range samples(f, "counters/*") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _, err := parseCounters(b)
		if (c == nil) != (err != nil) {
			t.Fatalf("counters %v and error %v", c, err)
		}
		if c == nil {
			return
		}
		if c.has == [numCounters]bool{} {
			t.Fatal("no counter and no error")
		}
		for i := range numCounters {
			for d := range endpoint.NumDirections {
				if v := c.value[d][i]; v != 0 && !c.has[i] {
					t.Fatalf("%s is %d and not there", i, v)
				}
			}
		}
	})
}

func BenchmarkParseCounters(b *testing.B) {
	for _, name := range []string{"crlf.txt", "form1.json"} {
		sample, err := os.ReadFile(filepath.Join("testdata", "counters", name))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(sample)))
			for b.Loop() {
				if _, _, err := parseCounters(bytes.Clone(sample)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
