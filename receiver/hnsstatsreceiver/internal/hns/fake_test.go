// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an HNS and a vfpctrl.exe in memory, for what takes another clock than
// the simulated ones have (test/winhns, source_windows_test.go). It answers what
// they answer.
type fake struct {
	mu        sync.Mutex
	endpoints map[string]simhns.Endpoint
	stats     map[string]simhns.Stats
	vfp       map[string]simhns.VFP
	// order of endpoints in lists
	ids []string

	listErr, v1Err, runErr    error
	propErr, statErr, portErr map[string]error
	listWait, v1Wait          time.Duration
	propWait, statWait        map[string]time.Duration // "" is everyone's
	vfpWait                   map[string]time.Duration
	textOnly                  bool
	left                      map[string]string // MAC addresses of ports left behind

	log  []string
	runs map[string]int // by port
	most int            // vfpctrl at a time
	now  int
}

func newFake(n int) *fake {
	f := &fake{
		endpoints: map[string]simhns.Endpoint{}, stats: map[string]simhns.Stats{}, vfp: map[string]simhns.VFP{},
		propErr: map[string]error{}, statErr: map[string]error{}, portErr: map[string]error{},
		propWait: map[string]time.Duration{}, statWait: map[string]time.Duration{}, vfpWait: map[string]time.Duration{},
		left: map[string]string{}, runs: map[string]int{},
	}
	for i := range n {
		f.put(simhns.Numbered(i), simhns.NumberedStats(i), simhns.NumberedVFP(i))
	}
	return f
}

func (f *fake) put(e simhns.Endpoint, s simhns.Stats, v simhns.VFP) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.endpoints[e.ID]; !known {
		f.ids = append(f.ids, e.ID)
	}
	s.EndpointId = strings.ToUpper(e.ID)
	f.endpoints[e.ID], f.stats[e.ID], f.vfp[e.Port] = e, s, v
}

func (f *fake) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.endpoints, id)
	delete(f.stats, id)
	f.ids = slices.DeleteFunc(f.ids, func(s string) bool { return s == id })
}

// with changes the fake while workers may use it.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// calls since the last time it was asked.
func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

// called logs a call, waits as long as its answer takes, and returns locked.
func (f *fake) called(call, key string, waits map[string]time.Duration) {
	f.mu.Lock()
	f.log = append(f.log, call)
	wait, ok := waits[key]
	if !ok {
		wait = waits[""]
	}
	f.mu.Unlock()
	time.Sleep(wait)
	f.mu.Lock()
}

func (f *fake) available() error { return nil }

func (f *fake) enumerate(state endpointState, buf []byte) ([]byte, error) {
	f.called(fmt.Sprintf("list %d", state), "", map[string]time.Duration{"": f.listWait})
	defer f.mu.Unlock()
	ids := []string{}
	for _, id := range f.ids {
		if endpointState(f.endpoints[id].State) == state {
			ids = append(ids, strings.ToUpper(id))
		}
	}
	b, _ := json.Marshal(ids)
	return append(buf, b...), f.listErr
}

func (f *fake) properties(id string, buf []byte) ([]byte, error) {
	f.called("properties "+id, id, f.propWait)
	defer f.mu.Unlock()
	if err := f.propErr[id]; err != nil {
		return buf, err
	}
	e, ok := f.endpoints[id]
	if !ok {
		return buf, endpointNotFound
	}
	return append(buf, e.JSON()...), nil
}

func (f *fake) endpointsV1() ([]endpointV1, error) {
	f.called("list v1", "", map[string]time.Duration{"": f.listWait + f.v1Wait})
	defer f.mu.Unlock()
	if f.v1Err != nil {
		return nil, f.v1Err
	}
	list := []endpointV1{}
	for _, id := range f.ids {
		e := f.endpoints[id]
		list = append(list, endpointV1{
			id: strings.ToUpper(id), name: e.Name, mac: e.MAC, namespace: e.Namespace, addresses: addrs(e.Addresses...),
			containers: e.Containers, state: endpointState(e.State), remote: e.Remote,
		})
	}
	return list, nil
}

func (f *fake) statistics(id string) (statistics, error) {
	f.called("statistics "+id, id, f.statWait)
	defer f.mu.Unlock()
	if err := f.statErr[id]; err != nil {
		if err.Error() == "panic" {
			panic("interface conversion: error is *windows.DLLError")
		}
		return statistics{}, err
	}
	s, ok := f.stats[id]
	if !ok {
		return statistics{}, elementNotFound
	}
	return statistics{
		endpoint: s.EndpointId,
		bytes:    [2]uint64{s.BytesReceived, s.BytesSent},
		packets:  [2]uint64{s.PacketsReceived, s.PacketsSent},
		dropped:  [2]uint64{s.DroppedPacketsIncoming, s.DroppedPacketsOutgoing},
	}, nil
}

// run is vfpctrl.exe.
func (f *fake) run(ctx context.Context, _ int, args ...string) ([]byte, error) {
	f.mu.Lock()
	f.log = append(f.log, "vfpctrl "+strings.Join(args, " "))
	port, isJSON := "ports", slices.Contains(args, "/format")
	if args[0] == "/port" {
		port = args[1]
	}
	f.runs[port]++
	wait, ok := f.vfpWait[port]
	if !ok {
		wait = f.vfpWait[""]
	}
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case f.runErr != nil:
		return nil, f.runErr
	case f.portErr[port] != nil:
		return nil, f.portErr[port]
	case isJSON && (f.textOnly || port == "ports"):
		return nil, &exitError{1, "ERROR: unknown option"}
	case port == "ports":
		var b strings.Builder
		for _, e := range f.endpoints {
			fmt.Fprintf(&b, "Port name : %s\r\nMAC address : %s\r\n\r\n", e.Port, e.MAC)
		}
		for port, mac := range f.left {
			fmt.Fprintf(&b, "Port name : %s\r\nMAC address : %s\r\n\r\n", port, mac)
		}
		return []byte(b.String()), nil
	}
	v, ok := f.vfp[port]
	switch {
	case !ok:
		return []byte("ERROR: failed to open port\r\n"), nil
	case isJSON:
		return []byte(v.JSON()), nil
	}
	return []byte(v.Text()), nil
}

var errMissing = fmt.Errorf("start C:\\vfpctrl.exe: %w", fs.ErrNotExist)

// readResult is what one Read visited.
type readResult struct {
	endpoints map[string]*endpoint.Endpoint
	counters  map[string]endpoint.Counters
	err       error
	took      time.Duration
}

// withVFP returns the endpoints that came with VFP counters.
func (r readResult) withVFP() []string {
	var ids []string
	for id, c := range r.counters {
		if c.TCP != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// failed returns the names of the endpoints that an error names.
func failed(err error) []string {
	var names []string
	var join interface{ Unwrap() []error }
	if errors.As(err, &join) {
		for _, e := range join.Unwrap() {
			var one *endpoint.Error
			if errors.As(e, &one) {
				names = append(names, one.Endpoint)
			}
		}
	}
	slices.Sort(names)
	return names
}

func read(t testing.TB, s endpoint.Source, deadline time.Duration) readResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	r := readResult{endpoints: map[string]*endpoint.Endpoint{}, counters: map[string]endpoint.Counters{}}
	begin := time.Now()
	r.err = s.Read(ctx, func(e *endpoint.Endpoint, c *endpoint.Counters) {
		require.NotContains(t, r.endpoints, e.HNSEndpoint, "visited twice")
		r.endpoints[e.HNSEndpoint] = e
		r.counters[e.HNSEndpoint] = clone(c)
	})
	r.took = time.Since(begin)
	return r
}

// clone copies counters with what they point to: they are valid during the visit
// only.
func clone(c *endpoint.Counters) endpoint.Counters {
	out := *c
	if c.ACLDropped != nil {
		v := *c.ACLDropped
		out.ACLDropped = &v
	}
	if c.TCP != nil {
		tcp := *c.TCP
		if c.TCP.Packets != nil {
			v := *c.TCP.Packets
			tcp.Packets = &v
		}
		out.TCP = &tcp
	}
	return out
}

// wantCounters are the counters of a numbered endpoint.
func wantCounters(s simhns.Stats, v *simhns.VFP) endpoint.Counters {
	c := endpoint.Counters{
		Bytes:   [2]uint64{endpoint.Receive: s.BytesReceived, endpoint.Transmit: s.BytesSent},
		Packets: [2]uint64{endpoint.Receive: s.PacketsReceived, endpoint.Transmit: s.PacketsSent},
		Dropped: [2]uint64{endpoint.Receive: s.DroppedPacketsIncoming, endpoint.Transmit: s.DroppedPacketsOutgoing},
	}
	if v == nil {
		return c
	}
	c.ACLDropped = &[2]uint64{endpoint.Receive: v.In[11], endpoint.Transmit: v.Out[11]}
	c.TCP = &endpoint.TCP{
		Packets: &[2][endpoint.NumTCPFlags]uint64{
			endpoint.Receive:  {endpoint.SYN: v.In[0], endpoint.SYNACK: v.In[1], endpoint.FIN: v.In[2], endpoint.RST: v.In[3]},
			endpoint.Transmit: {endpoint.SYN: v.Out[0], endpoint.SYNACK: v.Out[1], endpoint.FIN: v.Out[2], endpoint.RST: v.Out[3]},
		},
		HasPacket: [endpoint.NumTCPFlags]bool{true, true, true, true},
	}
	for i, e := range []endpoint.TCPEvent{
		endpoint.Verified, endpoint.TimedOut, endpoint.Reset, endpoint.ResetSYN, endpoint.ClosedFIN,
		endpoint.HalfOpenTimeout, endpoint.TimeWaitExpired,
	} {
		c.TCP.Events[e], c.TCP.HasEvent[e] = v.In[4+i]+v.Out[4+i], true
	}
	return c
}

// started returns a started source on the fake, and what it logs.
func started(t testing.TB, f *fake, cfg Config) (*source, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	s := newSource(cfg, set, f, f)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, logs
}

func vfpConfig() Config {
	return Config{VFP: VFPConfig{Enabled: true, Timeout: 5 * time.Second}, Deadline: interval}
}
