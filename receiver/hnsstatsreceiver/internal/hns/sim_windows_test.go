// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/windows"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint/endpointtest"
	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// These tests make the real calls, against the SIMULATED HNS and vfpctrl.exe of
// test/winhns: they prove what this package does with an answer, not that Windows
// answers so. On a Windows with a real HNS they are skipped.

// patient is a deadline that is no part of what is tested: this machine may be busy.
const patient = time.Minute

// simulated returns a directory of answers for the simulated HNS.
func simulated(t testing.TB) simhns.Dir {
	t.Helper()
	if windows.NewLazySystemDLL("vmcompute.dll").NewProc("SimulatedHNS").Find() != nil {
		t.Skip("needs the simulated HNS: test/winhns/setup.sh, and go test -exec test/winhns/wine.sh")
	}
	d := simhns.New(t)
	t.Setenv("SIMHNS_DIR", d.Path)
	return d
}

// startedReal returns a started source as New makes it, and what it logs.
func startedReal(t testing.TB, cfg Config) (*source, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	made, err := New(cfg, set)
	require.NoError(t, err)
	s := made.(*source)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, logs
}

// assertNumbered asserts that the endpoints were read with all their counters.
func assertNumbered(t testing.TB, r readResult, numbers ...int) {
	t.Helper()
	for _, i := range numbers {
		e, v := simhns.Numbered(i), simhns.NumberedVFP(i)
		if assert.Contains(t, r.endpoints, e.ID) {
			assert.Equal(t, wantCounters(simhns.NumberedStats(i), &v), r.counters[e.ID])
			assert.Equal(t, addrs(e.Addresses...), r.endpoints[e.ID].Addresses)
			assert.Equal(t, e.Containers[0], r.endpoints[e.ID].Container)
			assert.Equal(t, e.Namespace, r.endpoints[e.ID].HNSNamespace)
		}
	}
}

// assertNoHandles asserts that every handle was closed.
func assertNoHandles(t testing.TB, d simhns.Dir) {
	t.Helper()
	opened, closed := 0, 0
	for _, call := range d.Calls() {
		switch {
		case strings.HasPrefix(call, "open ") && strings.HasSuffix(call, " 0x00000000"):
			opened++
		case strings.HasPrefix(call, "close "):
			closed++
		}
	}
	assert.Equal(t, opened, closed, "handles of HCN that were opened and closed")
	assert.NotZero(t, opened)
}

// running returns how many processes of that name there are.
func running(t testing.TB, name string) int {
	t.Helper()
	h, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	require.NoError(t, err)
	defer windows.CloseHandle(h)
	e := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	n := 0
	for err = windows.Process32First(h, &e); err == nil; err = windows.Process32Next(h, &e) {
		if strings.EqualFold(windows.UTF16ToString(e.ExeFile[:]), name) {
			n++
		}
	}
	return n
}

// assertNoVFPCtrl asserts that no vfpctrl.exe is left. One that was killed may take
// a moment to go.
func assertNoVFPCtrl(t testing.TB) {
	t.Helper()
	assert.Eventually(t, func() bool { return running(t, "vfpctrl.exe") == 0 }, patient, 10*time.Millisecond)
}

// readWine reads until Wine has started every vfpctrl.exe: on a busy machine
// Wine 8 fails to start one process in a thousand ("Internal error.").
func readWine(t testing.TB, s endpoint.Source) readResult {
	t.Helper()
	for {
		r := read(t, s, patient)
		if r.err == nil || !strings.Contains(r.err.Error(), "vfpctrl.exe: Internal error.") {
			return r
		}
		t.Log("Wine failed to start a process:", r.err)
	}
}

func TestSimulatedHNS(t *testing.T) {
	d := simulated(t)
	for _, n := range []int{3, 50} {
		for i := range n {
			d.PutNumbered(i)
		}
		own := simhns.Numbered(900)
		own.State, own.Containers = simhns.Attached, nil
		d.PutEndpoint(own)
		remote := simhns.Numbered(901)
		remote.Remote = true
		d.PutEndpoint(remote)
		pod := simhns.Numbered(902)
		pod.State = simhns.Attached
		d.PutEndpoint(pod)
		d.PutStats(pod.ID, simhns.NumberedStats(902))
		d.PutVFP(pod.Port, simhns.NumberedVFP(902), false)
		t.Run("endpoints", func(t *testing.T) {
			cfg := vfpConfig()
			cfg.VFP.Timeout = patient
			s, _ := startedReal(t, cfg)
			r := readWine(t, s)
			require.NoError(t, r.err)
			assertNumbered(t, r, 902)
			for i := range n {
				assertNumbered(t, r, i)
			}
			assert.Len(t, r.endpoints, n+1)
		})
	}
}

// Calls to HNS in a scrape: one list, one call an endpoint for its statistics, and
// the three that hcsshim's list makes for each endpoint as well.
func TestSimulatedCalls(t *testing.T) {
	d := simulated(t)
	const n = 50
	for i := range n {
		d.PutNumbered(i)
	}
	s, _ := startedReal(t, Config{})
	for range 2 { // the endpoints are new
		require.NoError(t, readWine(t, s).err)
	}
	d.LogCalls()
	require.NoError(t, readWine(t, s).err)
	count := map[string]int{}
	for _, call := range d.Calls() {
		what, _, _ := strings.Cut(call, " ")
		count[what]++
	}
	assert.Equal(t, map[string]int{"enumerate": 1, "open": n, "query": n, "close": n, "GET": n}, count)
	assertNoHandles(t, d)
}

func TestSimulatedSourceKeepsTheContract(t *testing.T) {
	d := simulated(t)
	for i := range 5 {
		d.PutNumbered(i)
	}
	s, err := New(Config{Deadline: patient}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	endpointtest.TestContract(t, s)
}

func TestSimulatedChanges(t *testing.T) {
	d := simulated(t)
	e := d.PutNumbered(1)
	s, _ := startedReal(t, vfpConfig())
	first := readWine(t, s)
	assertNumbered(t, first, 1)
	d.PutStats(e.ID, simhns.NumberedStats(2))
	d.PutVFP(e.Port, simhns.NumberedVFP(2), false)
	v := simhns.NumberedVFP(2)
	r := readWine(t, s)
	assert.Equal(t, wantCounters(simhns.NumberedStats(2), &v), r.counters[e.ID])
	assert.Same(t, first.endpoints[e.ID], r.endpoints[e.ID])

	d.RemoveEndpoint(e.ID)
	assert.Empty(t, readWine(t, s).endpoints)
	d.PutNumbered(1)
	assert.NotEqual(t, first.endpoints[e.ID].ID, readWine(t, s).endpoints[e.ID].ID)
}

// An endpoint's name and addresses in other letters than ASCII.
func TestSimulatedUnicode(t *testing.T) {
	d := simulated(t)
	e := simhns.Numbered(1)
	e.Name = "pod-ünïcode-𝟙-名前"
	d.PutEndpoint(e)
	d.PutStats(e.ID, simhns.NumberedStats(1))
	s, _ := startedReal(t, Config{})
	r := readWine(t, s)
	require.NoError(t, r.err)
	assert.Equal(t, e.Name, r.endpoints[e.ID].Interface)
}

func TestSimulatedMissingVFPCtrl(t *testing.T) {
	d := simulated(t)
	e := d.PutNumbered(1)
	s, logs := startedReal(t, vfpConfig())
	s.vfp.program = exe{filepath.Join(t.TempDir(), "vfpctrl.exe")}
	r := readWine(t, s)
	require.ErrorIs(t, r.err, os.ErrNotExist)
	assert.Equal(t, wantCounters(simhns.NumberedStats(1), nil), r.counters[e.ID])
	require.NoError(t, readWine(t, s).err)
	assert.Equal(t, 1, logs.Len())
}

// 250 endpoints and a vfpctrl that takes 100 ms: the scrape ends within the
// interval of 10 s, all HNS counters are there, and what VFP counters are missing,
// which depends on the machine, are reported and come first next time. (The clock
// of TestVFPOf250EndpointsFitsIntoTheInterval doesn't depend on it.)
func TestSimulated250EndpointsWithSlowVFP(t *testing.T) {
	d := simulated(t)
	const n = 250
	for i := range n {
		d.PutNumbered(i)
	}
	d.Delay("vfp/all", 100*time.Millisecond)
	s, _ := startedReal(t, vfpConfig())
	before := map[string]bool{}
	for range 2 {
		r := read(t, s, interval)
		with := r.withVFP()
		t.Logf("%d of %d with VFP in %s", len(with), n, r.took)
		// To the millisecond it is proved where the clock is the test's; here the
		// scrape must end at all, with runs of vfpctrl.exe that are killed.
		require.Less(t, r.took, 2*interval)
		require.Len(t, r.counters, n)
		require.NotEmpty(t, with)
		if len(with) < n {
			require.ErrorIs(t, r.err, errUnreached)
		} else {
			require.NoError(t, r.err)
		}
		again := 0
		for _, id := range with {
			if before[id] {
				again++
			}
			before[id] = true
		}
		if again > 0 {
			// All the others had been started before: what is missing was being read
			// when time was up.
			assert.LessOrEqual(t, n-len(before), vfpInFlight, "read again while others had not been asked once: %v", r.err)
		}
		for i := range n {
			if before[simhns.Numbered(i).ID] && r.counters[simhns.Numbered(i).ID].TCP != nil {
				assertNumbered(t, r, i)
			}
		}
	}
	assertNoVFPCtrl(t)
}
