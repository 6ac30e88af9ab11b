// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// What can go wrong with one endpoint: the others are right in the same scrape,
// the error names the endpoint, and no handle and no process stays.
func TestSimulatedFaults(t *testing.T) {
	bad := simhns.Numbered(1)
	const (
		open  = "hcn/endpoints/"
		stats = "hns/get/endpointstats/"
	)
	refusing := func(name, code string) func(simhns.Dir) {
		return func(d simhns.Dir) { d.Write(name+".hr", code) }
	}
	answering := func(name, answer string) func(simhns.Dir) {
		return func(d simhns.Dir) { d.Write(name, answer) }
	}
	type fault struct {
		set  func(simhns.Dir)
		want string
		// hnsGoesOn says that only the VFP counters are missing.
		hnsGoesOn bool
	}
	rows := map[string]fault{
		"vanishes between list and statistics": {set: func(d simhns.Dir) { d.Remove(stats + bad.ID + ".json") }, want: "Element not found"},
		"its description is cut short":         {set: answering(open+bad.ID+".json", strings.TrimSuffix(bad.JSON(), "}")), want: "HCN's properties: no valid JSON"},
		"its description is another's":         {set: answering(open+bad.ID+".json", simhns.Numbered(2).JSON()), want: "HCN's properties: they are those of endpoint"},
		"its statistics are cut short":         {set: answering(stats+bad.ID+".raw", `{"Success":true,"Output":{"BytesRec`), want: "unexpected end of JSON input"},
		"Success is false":                     {set: answering(stats+bad.ID+".raw", `{"Success":false,"Error":"Die Schnittstelle ist unbekannt.","ErrorCode":2147944117,"Output":{"BytesReceived":5}}`), want: "Die Schnittstelle ist unbekannt."},
		"an envelope without content":          {set: answering(stats+bad.ID+".raw", `{"Success":true}`), want: "HNS's statistics: an answer without content"},
		"an envelope with null":                {set: answering(stats+bad.ID+".raw", `{"Success":true,"Output":null}`), want: "HNS's statistics: an answer without content"},
		"zeros without the endpoint's id":      {set: answering(stats+bad.ID+".json", `{"BytesReceived":0}`), want: "HNS's statistics: an answer without content"},
		"another endpoint's statistics":        {set: answering(stats+bad.ID+".json", `{"BytesReceived":1,"EndpointId":"`+simhns.Numbered(2).ID+`"}`), want: "HNS's statistics: they are those of endpoint"},
		"a record of a failure with success":   {set: answering(open+bad.ID+".query.result", `{"Success":false,"Error":"odd"}`), want: "odd"},

		"vfpctrl exits 1":                  {set: answering("vfp/"+bad.Port+".rc", "1"), want: "vfpctrl failed with exit code 1", hnsGoesOn: true},
		"vfpctrl prints ERROR with exit 0": {set: answering("vfp/"+bad.Port+".json", "ERROR: failed to open port\nError (5): Access is denied.\n"), want: "vfpctrl refused: ERROR: failed to open port Error (5): Access is denied.", hnsGoesOn: true},
		"vfpctrl hangs":                    {set: answering("vfp/"+bad.Port+".delay", "600000"), want: "no answer within 10s and was killed", hnsGoesOn: true},
		"vfpctrl hangs with a child": {set: func(d simhns.Dir) {
			d.Write("vfp/"+bad.Port+".delay", "600000")
			d.Write("vfp/"+bad.Port+".child", "600000")
		}, want: "no answer within 10s and was killed", hnsGoesOn: true},
		"vfpctrl prints 10 MB":               {set: answering("vfp/"+bad.Port+".json", strings.Repeat("0123456789abcdef", 10<<20/16)), want: "printed more than 262144 bytes and was killed", hnsGoesOn: true},
		"vfpctrl prints JSON that is cut":    {set: answering("vfp/"+bad.Port+".json", simhns.NumberedVFP(1).JSON()[:300]), want: "no valid JSON", hnsGoesOn: true},
		"vfpctrl prints something else":      {set: answering("vfp/"+bad.Port+".json", "Usage: vfpctrl"), want: "no port counters in vfpctrl's answer: Usage: vfpctrl", hnsGoesOn: true},
		"vfpctrl prints nothing with exit 0": {set: answering("vfp/"+bad.Port+".json", ""), want: "no port counters", hnsGoesOn: true},
	}
	for code, want := range map[string]string{
		"80070005": "access denied (0x80070005): reading HNS takes the rights of LocalSystem",
		"803B0002": "endpoint not found (0x803b0002)",
		"80070490": "element not found (0x80070490)",
		"800706BA": "RPC server unavailable (0x800706ba): the HNS service doesn't run",
		"803B0003": "HNS error 0x803b0003",
	} {
		rows[code+" when it is opened"] = fault{set: refusing(open+bad.ID, code), want: want}
		rows[code+" when it is described"] = fault{set: refusing(open+bad.ID+".query", code), want: want}
		rows[code+" when it is counted"] = fault{set: refusing(stats+bad.ID, code), want: want}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			d := simulated(t)
			for i := range 4 {
				d.PutNumbered(i)
			}
			cfg := vfpConfig()
			cfg.VFP.Timeout = patient
			if strings.Contains(name, "hangs") {
				cfg.VFP.Timeout = 10 * time.Second
			}
			s, _ := startedReal(t, cfg)
			require.NoError(t, readWine(t, s).err)

			d.LogCalls()
			row.set(d)
			r := readWine(t, s)
			require.ErrorContains(t, r.err, row.want)
			assert.Equal(t, []string{bad.ID + " (pod-1)"}, failed(r.err), r.err)
			assertNumbered(t, r, 0, 2, 3)
			if row.hnsGoesOn {
				assert.Equal(t, wantCounters(simhns.NumberedStats(1), nil), r.counters[bad.ID])
			} else {
				assert.NotContains(t, r.counters, bad.ID)
			}
			assertNoHandles(t, d)
			assertNoVFPCtrl(t)
		})
	}
}

// An answer that takes 10 s costs its endpoint, and the others wait 5 s for it.
func TestSimulatedSlowAnswer(t *testing.T) {
	d := simulated(t)
	for i := range 4 {
		d.PutNumbered(i)
	}
	bad := simhns.Numbered(1)
	s, _ := startedReal(t, vfpConfig())
	require.NoError(t, readWine(t, s).err)
	d.Delay("hns/get/endpointstats/"+bad.ID, 10*time.Second)
	r := readWine(t, s)
	require.ErrorContains(t, r.err, "HNS has not answered since")
	assert.Equal(t, []string{bad.ID + " (pod-1)"}, failed(r.err))
	assertNumbered(t, r, 0, 2, 3)
	d.Remove("hns/get/endpointstats/" + bad.ID + ".delay")

	r = readWine(t, s)
	require.ErrorContains(t, r.err, "HNS has not answered since")
	assertNumbered(t, r, 0, 2, 3)
	a := <-s.answers // the slow one's, which the next Read would take
	s.answers <- a
	r = readWine(t, s)
	require.NoError(t, r.err)
	assertNumbered(t, r, 0, 1, 2, 3)
}

// What can go wrong with the list.
func TestSimulatedListFaults(t *testing.T) {
	const list = "hcn/endpoints"
	for name, set := range map[string]func(simhns.Dir){
		"80070490":            func(d simhns.Dir) { d.Write(list+".hr", "80070490") },
		"803B0002":            func(d simhns.Dir) { d.Write(list+".hr", "803B0002") },
		"800706BA":            func(d simhns.Dir) { d.Write(list+".hr", "800706BA") },
		"80070005":            func(d simhns.Dir) { d.Write(list+".hr", "80070005") },
		"cut short":           func(d simhns.Dir) { d.Write(list+".json", `["1a2b3c4d-0001`) },
		"null":                func(d simhns.Dir) { d.Write(list+".json", `null`) },
		"no answer":           func(d simhns.Dir) { d.Write(list+".json", ``) },
		"a record of failure": func(d simhns.Dir) { d.Write(list+".result", `{"Success":false,"Error":"odd"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			d := simulated(t)
			var all []simhns.Endpoint
			for i := range 3 {
				all = append(all, d.PutNumbered(i))
			}
			d.PutPorts(all...)
			set(d)
			s, logs := startedReal(t, vfpConfig())
			r := readWine(t, s)
			require.Error(t, r.err)
			require.ErrorContains(t, r.err, "list the HNS endpoints: HCN's list of endpoints")
			require.ErrorContains(t, r.err, "HNS's older list of endpoints: hns failed with error : Element not found")
			assert.Empty(t, failed(r.err))

			d.PutV1(all...) // now the older list answers
			r = readWine(t, s)
			require.NoError(t, r.err)
			assertNumbered(t, r, 0, 1, 2)
			assert.Equal(t, 1, logs.Len(), "reported once")
		})
	}
}

// What a Windows lacks for good. DLLs are loaded once a process, so each row is a
// process of its own.
func TestSimulatedMissingParts(t *testing.T) {
	for hidden, want := range map[string]string{
		"vmcompute.dll":               "start: this Windows can't tell its network endpoints: load vmcompute.dll: ",
		"HNSCall":                     "start: this Windows can't tell its network endpoints: Failed to find HNSCall procedure in vmcompute.dll",
		"computenetwork.dll":          "read: 3 endpoints, <nil>; older list: HCN's list of endpoints: load computenetwork.dll: ",
		"HcnEnumerateEndpoints":       "read: 3 endpoints, <nil>; older list: HCN's list of endpoints: Failed to find HcnEnumerateEndpoints procedure",
		"HcnOpenEndpoint":             ": HCN's properties: Failed to find HcnOpenEndpoint procedure",
		"HcnQueryEndpointProperties":  ": HCN's properties: Failed to find HcnQueryEndpointProperties procedure",
		"HcnCloseEndpoint":            ": HCN's properties: Failed to find HcnCloseEndpoint procedure",
		"no such part, to compare to": "read: 3 endpoints, <nil>\n",
	} {
		t.Run(hidden, func(t *testing.T) {
			d := simulated(t)
			var all []simhns.Endpoint
			for i := range 3 {
				all = append(all, d.PutNumbered(i))
			}
			d.PutV1(all...)
			cmd := exec.Command(os.Args[0], "-test.run=^TestMissingPartsChild$", "-test.v")
			cmd.Env = append(os.Environ(), "SIMHNS_HIDE="+hidden, "SIMHNS_CHILD=1")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), want)
			if !strings.HasPrefix(want, "start") {
				assert.Contains(t, string(out), "read: 3 endpoints")
			}
		})
	}
}

// TestMissingPartsChild is what TestSimulatedMissingParts runs.
func TestMissingPartsChild(t *testing.T) {
	if os.Getenv("SIMHNS_CHILD") == "" {
		t.Skip("is run by TestSimulatedMissingParts")
	}
	made, err := New(Config{}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	if err := made.Start(t.Context()); err != nil {
		t.Logf("start: %v", err)
		return
	}
	s := made.(*source)
	r := readWine(t, s)
	if s.v1Listed {
		_, why := (&worker{calls: s.calls}).enumerate(attachedSharing)
		t.Logf("read: %d endpoints, %v; older list: %v", len(r.endpoints), r.err, why)
	} else {
		t.Logf("read: %d endpoints, %v\n", len(r.endpoints), r.err)
	}
	require.NoError(t, s.Close())
}
