// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package simhns

import (
	"fmt"
	"strings"
)

// CounterNames are VFP's counters as the text form and the JSON form of
// vfpctrl.exe write them.
var CounterNames = [][2]string{
	{"SYN packets", "TcpSynPackets"},
	{"SYN-ACK packets", "TcpSynAckPackets"},
	{"FIN packets", "TcpFinPackets"},
	{"RST packets", "TcpResetPackets"},
	{"TCP Connections Verified", "TcpConnectionsVerified"},
	{"TCP Connections Timed Out", "TcpConnectionsTimedOut"},
	{"TCP Connections Reset", "TcpConnectionsResets"},
	{"TCP Connections Reset by SYN", "TcpConnectionsResetBySyn"},
	{"TCP Connections Closed by FIN", "TcpConnectionsClosedByFin"},
	{"TCP Half Open Timeouts", "TcpHalfOpenTimeouts"},
	{"TCP Connections Expired to Time Wait", "TcpConnectionsExpiredTimeWait"},
	{"Dropped ACL packets", "DroppedAcl"},
}

// VFP are the counters of a port by direction, in the order of CounterNames.
type VFP struct{ In, Out [12]uint64 }

// NumberedVFP returns counters that differ for each endpoint, direction and
// counter.
func NumberedVFP(i int) VFP {
	var v VFP
	for c := range v.In {
		v.In[c] = uint64(i)*100 + 20 + uint64(c)
		v.Out[c] = uint64(i)*100 + 60 + uint64(c)
	}
	return v
}

// Text returns the text form.
func (v VFP) Text() string {
	var b strings.Builder
	for _, d := range []struct {
		name   string
		counts [12]uint64
	}{{"OUT", v.Out}, {"IN", v.In}} {
		fmt.Fprintf(&b, "\nDirection - %s\n", d.name)
		for c, name := range CounterNames {
			fmt.Fprintf(&b, "  %-36s: %d\n", name[0], d.counts[c])
		}
	}
	b.WriteString("\nCommand get-port-counter succeeded!\n")
	return b.String()
}

// JSON returns the JSON form.
func (v VFP) JSON() string {
	direction := func(d int, counts [12]uint64) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{"Direction":%d,"TotalPackets":9999,"TcpConnectionsResetHalfTTL":77`, d)
		for c, name := range CounterNames {
			fmt.Fprintf(&b, `,%q:%d`, name[1], counts[c])
		}
		return b.String() + "}"
	}
	return `{"InformationArray":{"PortCounters":[` + direction(0, v.Out) + "," + direction(1, v.In) + "]}}"
}

// PutVFP sets the counters of a port in both forms. Text only is what a vfpctrl
// answers that doesn't know /format 1.
func (d Dir) PutVFP(port string, v VFP, textOnly bool) {
	d.t.Helper()
	d.Write("vfp/"+port+".txt", v.Text())
	if !textOnly {
		d.Write("vfp/"+port+".json", v.JSON())
	}
}

// PutPorts sets the list of switch ports, in the text form.
func (d Dir) PutPorts(list ...Endpoint) {
	d.t.Helper()
	var b strings.Builder
	b.WriteString("\nITEM LIST\n===========\n\n")
	for _, e := range list {
		fmt.Fprintf(&b, "Port name             : %s\nPort Friendly name    : %s\nMAC address           : %s\nPort type             : Synthetic\n\n",
			strings.ToUpper(e.Port), strings.ToUpper(e.ID), e.MAC)
	}
	b.WriteString("Port name             : Ethernet\nPort Friendly name    : ExternalPort\n\nCommand list-vmswitch-port succeeded!\n")
	d.Write("vfp/ports.txt", b.String())
}

// PutNumbered makes an endpoint with its counters by HNS and VFP.
func (d Dir) PutNumbered(i int) Endpoint {
	d.t.Helper()
	e := Numbered(i)
	d.PutEndpoint(e)
	d.PutStats(e.ID, NumberedStats(i))
	d.PutVFP(e.Port, NumberedVFP(i), false)
	return e
}
