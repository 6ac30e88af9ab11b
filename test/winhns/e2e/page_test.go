// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// page is a Prometheus page: the value of each series.
type page map[string]float64

// series writes a series' name as page has it.
func series(name string, labels map[string]string) string {
	var b strings.Builder
	b.WriteString(name)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, " %s=%q", k, labels[k])
	}
	return b.String()
}

func fetch(t *testing.T, url string) (page, error) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	p := page{}
	for name, f := range families {
		if !strings.HasPrefix(name, "k8s_pod_network_") {
			continue
		}
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			p[series(name, labels)] = m.GetCounter().GetValue()
		}
	}
	return p, nil
}

// expected is what the page must say of an endpoint and its pod: every value of
// the files that the simulation answers from, and no series more.
func expected(e simhns.Endpoint, pod simhns.Sandbox, s simhns.Stats, v simhns.VFP) page {
	p := page{}
	put := func(name string, value uint64, more ...string) {
		labels := map[string]string{
			"k8s_pod_name": pod.Name, "k8s_namespace_name": pod.Namespace, "k8s_pod_ip": e.Addresses[0],
		}
		if pod.UID != "" {
			labels["k8s_pod_uid"] = pod.UID
		}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		p[series("k8s_pod_network_"+name, labels)] = float64(value)
	}
	const dir, iface = "network_io_direction", "network_interface_name"
	for _, d := range []struct {
		name                    string
		bytes, packets, dropped uint64
		vfp                     [12]uint64
	}{
		{"receive", s.BytesReceived, s.PacketsReceived, s.DroppedPacketsIncoming, v.In},
		{"transmit", s.BytesSent, s.PacketsSent, s.DroppedPacketsOutgoing, v.Out},
	} {
		put("io_bytes_total", d.bytes, dir, d.name, iface, e.Name)
		put("packet_count_total", d.packets, dir, d.name, iface, e.Name)
		put("packet_dropped_total", d.dropped, dir, d.name, iface, e.Name, "reason", "endpoint")
		put("packet_dropped_total", d.vfp[11], dir, d.name, iface, e.Name, "reason", "acl")
		for i, flag := range []string{"syn", "syn_ack", "fin", "rst"} {
			put("tcp_packet_count_total", d.vfp[i], dir, d.name, "tcp_flag", flag)
		}
	}
	for i, event := range []string{"verified", "timed_out", "reset", "reset_syn", "closed_fin", "half_open_timeout", "time_wait_expired"} {
		put("tcp_connection_events_total", v.In[4+i]+v.Out[4+i], "event", event)
	}
	return p
}

// requirePage waits until the page says exactly what is expected.
func requirePage(t *testing.T, url string, want page) {
	t.Helper()
	var diff string
	ok := waitUntil(patient, func() bool {
		got, err := fetch(t, url)
		if err != nil {
			diff = err.Error()
			return false
		}
		diff = difference(want, got)
		return diff == ""
	})
	require.True(t, ok, "the page is not what the files say:\n%s", diff)
}

func difference(want, got page) string {
	var lines []string
	for s, v := range want {
		if g, ok := got[s]; !ok {
			lines = append(lines, "missing: "+s)
		} else if g != v {
			lines = append(lines, fmt.Sprintf("%v, not %v: %s", g, v, s))
		}
	}
	for s := range got {
		if _, ok := want[s]; !ok {
			lines = append(lines, "not expected: "+s)
		}
	}
	slices.Sort(lines)
	const enough = 20
	if len(lines) > enough {
		lines = append(lines[:enough], fmt.Sprintf("and %d more", len(lines)-enough))
	}
	return strings.Join(lines, "\n")
}

func waitUntil(limit time.Duration, f func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
