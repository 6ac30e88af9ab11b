// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// tcpTotals are the TCP totals of one network namespace (RFC 4022).
type tcpTotals struct {
	activeOpens, passiveOpens, attemptFails, estabResets uint64
}

func (t tcpTotals) endpoint() endpoint.TCP {
	var tcp endpoint.TCP
	set := func(event endpoint.TCPEvent, total uint64) {
		tcp.Events[event], tcp.HasEvent[event] = total, true
	}
	set(endpoint.ActiveOpen, t.activeOpens)
	set(endpoint.PassiveOpen, t.passiveOpens)
	set(endpoint.AttemptFailed, t.attemptFails)
	set(endpoint.Reset, t.estabResets)
	return tcp
}

// since is what was counted after base.
func (t tcpTotals) since(base tcpTotals) tcpTotals {
	return tcpTotals{
		activeOpens:  t.activeOpens - min(t.activeOpens, base.activeOpens),
		passiveOpens: t.passiveOpens - min(t.passiveOpens, base.passiveOpens),
		attemptFails: t.attemptFails - min(t.attemptFails, base.attemptFails),
		estabResets:  t.estabResets - min(t.estabResets, base.estabResets),
	}
}

// tellTCP returns the TCP totals for the visit of a port, if it is the one that
// carries them: the namespace's first one, for as long as it is there. Its heir
// may be younger than the totals, and goes on with what they count from then on.
func (n *namespace) tellTCP(p *port) (t tcpTotals, ok bool) {
	if n.tcpRead != p.read {
		return tcpTotals{}, false
	}
	if n.tcpPort == nil || n.tcpPort.gone {
		n.tcpPort, n.tcpBase = n.firstPort(), n.tcpTold
	}
	if n.tcpPort != p {
		return tcpTotals{}, false
	}
	n.tcpTold = n.tcp
	return n.tcp.since(n.tcpBase), true
}

// readTCP reads the TCP totals of every namespace that has ports and whose
// mount is visible. The kernel has no other way to them than to be inside: the
// calling goroutine's thread stays out of it.
func (s *Source) readTCP() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for _, n := range s.inv.spaces {
			if len(n.ports) > 0 && !s.inv.isOurs(n) {
				if n.tcp, n.tcpErr = s.inv.enterForTCP(n); n.tcpErr == nil {
					n.tcpRead = s.inv.epoch
				}
			}
		}
		// The thread must not stay inside: it would keep a pod's namespace alive.
		// If it cannot leave, it ends with the goroutine.
		if unix.Setns(s.inv.mounts.own.fd, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}

// reportTCP says of which namespaces the totals cannot be read, once they are
// known to be still there.
func (s *Source) reportTCP() {
	if !s.cfg.TCP {
		return
	}
	for _, n := range s.inv.spaces {
		if n.tcpErr != nil && !n.tcpFailing {
			s.logger.Warn("The TCP totals of a pod cannot be read (netlink.tcp.enabled); its other counters can", zap.Error(n.tcpErr))
		}
		n.tcpFailing = n.tcpErr != nil
	}
}

func (inv *inventory) enterForTCP(n *namespace) (tcpTotals, error) {
	if n.path == "" {
		return tcpTotals{}, fmt.Errorf("the collector sees no mount of network namespace %s", n)
	}
	fd, err := nsMount{inode: n.inode, path: n.path}.open()
	if err != nil {
		inv.displaced(n)
		return tcpTotals{}, err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return tcpTotals{}, fmt.Errorf("enter %s: %w", n.path, err)
	}
	b, err := os.ReadFile("/proc/thread-self/net/snmp")
	if err != nil {
		return tcpTotals{}, err
	}
	return parseSNMP(b)
}

// enterOwn shows whether namespaces can be entered at all.
func (m *mounts) enterOwn() error { return unix.Setns(m.own.fd, unix.CLONE_NEWNET) }

// parseSNMP reads the TCP totals of /proc/net/snmp: a line of names and a line
// of values, both beginning with "Tcp:" (snmp_seq_show_tcp_udp, net/ipv4/proc.c).
func parseSNMP(b []byte) (tcpTotals, error) {
	var names [][]byte
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("Tcp:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if names == nil {
			names = fields
			continue
		}
		return parseTCPLine(names, fields)
	}
	return tcpTotals{}, errors.New("no TCP totals in /proc/net/snmp")
}

func parseTCPLine(names, values [][]byte) (tcpTotals, error) {
	var t tcpTotals
	want := map[string]*uint64{
		"ActiveOpens": &t.activeOpens, "PassiveOpens": &t.passiveOpens,
		"AttemptFails": &t.attemptFails, "EstabResets": &t.estabResets,
	}
	for i, name := range names {
		total := want[string(name)]
		if total == nil || i >= len(values) {
			continue
		}
		v, err := strconv.ParseUint(string(values[i]), 10, 64)
		if err != nil {
			return tcpTotals{}, fmt.Errorf("%s in /proc/net/snmp: %w", name, err)
		}
		*total = v
		delete(want, string(name))
	}
	if len(want) > 0 {
		return tcpTotals{}, errors.New("TCP totals are missing in /proc/net/snmp")
	}
	return t, nil
}
