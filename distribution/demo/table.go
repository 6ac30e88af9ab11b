// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// row is one pod's totals; received and sent are the pod's.
type row struct {
	namespace, pod, address                       string
	rxBytes, txBytes, rxPackets, txPackets, drops float64
}

type table []row

// scrape reads a Prometheus page and sums its k8s.pod.network.* series by pod.
func scrape(ctx context.Context, url string) (table, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return parse(resp.Body)
}

func parse(page io.Reader) (table, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, err
	}
	rows := map[[3]string]*row{}
	for name, add := range map[string]func(r *row, receive bool, v float64){
		"k8s_pod_network_io_bytes_total": func(r *row, receive bool, v float64) {
			if receive {
				r.rxBytes += v
			} else {
				r.txBytes += v
			}
		},
		"k8s_pod_network_packet_count_total": func(r *row, receive bool, v float64) {
			if receive {
				r.rxPackets += v
			} else {
				r.txPackets += v
			}
		},
		"k8s_pod_network_packet_dropped_total": func(r *row, _ bool, v float64) { r.drops += v },
	} {
		for _, m := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			key := [3]string{labels["k8s_namespace_name"], labels["k8s_pod_name"], labels["k8s_pod_ip"]}
			if rows[key] == nil {
				rows[key] = &row{namespace: key[0], pod: key[1], address: key[2]}
			}
			v := m.GetCounter().GetValue()
			if m.Counter == nil {
				v = m.GetUntyped().GetValue()
			}
			add(rows[key], labels["network_io_direction"] == "receive", v)
		}
	}
	var t table
	for _, r := range rows {
		t = append(t, *r)
	}
	slices.SortFunc(t, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pod, b.pod), cmp.Compare(a.address, b.address))
	})
	return t, nil
}

func (t table) print(w io.Writer, redraw bool) {
	if redraw {
		fmt.Fprint(w, "\x1b[H\x1b[2J") // home, clear
		fmt.Fprintf(w, "Metrics page: %s   (Ctrl-C ends the demo)\n", metricsURL)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "NAMESPACE\tPOD\tADDRESS\tRECEIVED\tSENT\tPACKETS IN\tPACKETS OUT\tDROPS\t")
	for _, r := range t {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t\n", cmp.Or(r.namespace, "-"), cmp.Or(r.pod, "(unnamed)"), r.address,
			size(r.rxBytes), size(r.txBytes), r.rxPackets, r.txPackets, r.drops)
	}
	_ = tw.Flush()
}

// size writes bytes with a binary prefix.
func size(b float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if b < 1024 {
			if unit == "B" {
				return fmt.Sprintf("%.0f B", b)
			}
			return fmt.Sprintf("%.1f %s", b, unit)
		}
		b /= 1024
	}
	return fmt.Sprintf("%.1f TiB", b)
}
