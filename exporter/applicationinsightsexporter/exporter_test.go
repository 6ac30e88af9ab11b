// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-retina/otelcol-retina/exporter/applicationinsightsexporter/internal/metadata"
)

const key = "00000000-1111-2222-3333-444444444444"

// service answers as Application Insights' ingestion endpoint, and keeps what came.
type service struct {
	*httptest.Server
	got []envelope

	next    []answer // the first answers
	status  int      // then
	headers map[string]string
	answer  string
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2.1/track" || r.Header.Get("Content-Encoding") != "gzip" {
			http.NotFound(w, r)
			return
		}
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e envelope
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("%v: %s", err, lines.Bytes())
			}
			s.got = append(s.got, e)
		}
		for k, v := range s.headers {
			w.Header().Set(k, v)
		}
		a := answer{s.status, s.answer}
		if len(s.next) > 0 {
			a, s.next = s.next[0], s.next[1:]
		}
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func start(t *testing.T, s *service) *insightsExporter {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.ConnectionString = "InstrumentationKey=" + key + ";"
	if s != nil {
		cfg.ConnectionString += "IngestionEndpoint=" + configopaque.String(s.URL) + "/;LiveEndpoint=https://example.com/"
	}
	require.NoError(t, cfg.Validate())
	e, err := newExporter(cfg, exportertest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() {
		require.NoError(t, e.shutdown(t.Context()))
		require.NoError(t, e.shutdown(t.Context()))
	})
	return e
}

// deltas are points of two pods, with the values 0, 1, 2, 3.
func deltas() pmetric.Metrics {
	metrics := pmetric.NewMetrics()
	value := int64(0)
	for _, pod := range []string{"web-0", "web-1"} {
		rm := metrics.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr("k8s.pod.name", pod)
		m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName("k8s.pod.network.io")
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		for _, direction := range []string{"receive", "transmit"} {
			p := sum.DataPoints().AppendEmpty()
			p.SetIntValue(value)
			p.SetTimestamp(pcommon.NewTimestampFromTime(time.Unix(1_700_000_000, 5000)))
			p.Attributes().PutStr("network.io.direction", direction)
			value++
		}
	}
	return metrics
}

func TestItems(t *testing.T) {
	s := newService(t)
	require.NoError(t, start(t, s).push(t.Context(), deltas()))
	require.Len(t, s.got, 4)
	require.Equal(t, envelope{
		Name: "Microsoft.ApplicationInsights.00000000111122223333444444444444.Metric",
		Time: "2023-11-14T22:13:20.000005Z", IKey: key,
		Data: envelopeData{BaseType: "MetricData", BaseData: metricData{
			Ver: 2, Metrics: []metricPoint{{Name: "k8s.pod.network.io", Kind: "Measurement", Value: 3, Count: 1}},
			Properties: map[string]string{"k8s.pod.name": "web-1", "network.io.direction": "transmit"},
		}},
	}, s.got[3])

	nothing := pmetric.NewMetrics()
	require.NoError(t, start(t, nil).push(t.Context(), nothing), "nothing to send")
	nothing.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyHistogram()
	require.NoError(t, start(t, nil).push(t.Context(), nothing), "nor to refuse")
}

func TestNamesAndValuesAreCut(t *testing.T) {
	s := newService(t)
	metrics := deltas()
	long := strings.Repeat("é", 10_000)
	metrics.ResourceMetrics().At(0).Resource().Attributes().PutStr(long, long)
	metrics.ResourceMetrics().At(0).Resource().Attributes().PutInt("inode", 7)
	require.NoError(t, start(t, s).push(t.Context(), metrics))
	require.Equal(t, long[:maxValue], s.got[0].Data.BaseData.Properties[long[:maxName]])
	require.Equal(t, "7", s.got[0].Data.BaseData.Properties["inode"])
}

func TestWhatCannotBeSent(t *testing.T) {
	s := newService(t)
	e := start(t, s)
	cumulative := deltas()
	for i := range 2 {
		require.NoError(t, e.push(t.Context(), cumulative))
		require.Len(t, s.got, 4-2*i, "what can be sent is")
		s.got = nil
		cumulative.ResourceMetrics().At(i).ScopeMetrics().At(0).Metrics().At(0).Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	}
	err := e.push(t.Context(), cumulative)
	require.True(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, `none of 4 points was taken; the first: metric "k8s.pod.network.io": is a cumulative sum`)
	require.ErrorContains(t, err, "cumulative_to_delta")
	require.Empty(t, s.got)
}

// odd are deltas with points that can't be sent, or say nothing, before the last:
// what is sent are the values 0 and 3.
func odd(value float64) pmetric.Metrics {
	metrics := deltas()
	first := metrics.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints()
	first.At(1).SetDoubleValue(value)
	second := metrics.ResourceMetrics().At(1).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints()
	second.At(0).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	second.AppendEmpty() // no value
	return metrics
}

// TestOddValues: one value that JSON hasn't doesn't take the others along, and a
// point without a value doesn't become a zero.
func TestOddValues(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		s := newService(t)
		e := start(t, s)
		require.NoError(t, e.push(t.Context(), odd(value)))
		require.Len(t, s.got, 2)
		require.EqualValues(t, 0, s.got[0].Data.BaseData.Metrics[0].Value)
		require.EqualValues(t, 3, s.got[1].Data.BaseData.Metrics[0].Value)

		// The service's numbers are of the points that were sent.
		s.status, s.headers = http.StatusPartialContent, map[string]string{"Retry-After": "9"}
		s.answer = `{"itemsReceived":2,"itemsAccepted":1,"errors":[{"index":1,"statusCode":429,"message":"x"}]}`
		err := e.push(t.Context(), odd(value))
		require.False(t, consumererror.IsPermanent(err))
		require.ErrorContains(t, err, "Throttle (9s)", "for a part, too")
		var again consumererror.Metrics
		require.ErrorAs(t, err, &again)
		s.got, s.status = nil, http.StatusOK
		require.NoError(t, e.push(t.Context(), again.Data()))
		require.Len(t, s.got, 1)
		require.EqualValues(t, 3, s.got[0].Data.BaseData.Metrics[0].Value)
	}
}

// TestRedirects: one that keeps the method is followed; one to a page, as a proxy's
// login is, takes nothing.
func TestRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := newService(t)
		page := http.NewServeMux()
		page.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
		page.HandleFunc("POST /v2.1/track", s.Config.Handler.ServeHTTP)
		elsewhere := httptest.NewServer(page)
		t.Cleanup(elsewhere.Close)
		proxy := newService(t)
		proxy.status, proxy.headers = status, map[string]string{"Location": elsewhere.URL + "/v2.1/track"}
		err := start(t, proxy).push(t.Context(), deltas())
		if status >= 307 {
			require.NoError(t, err)
			require.Len(t, s.got, 4)
			continue
		}
		require.ErrorContains(t, err, fmt.Sprint(status))
		require.False(t, consumererror.IsPermanent(err))
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		status    int
		headers   map[string]string
		permanent bool
		want      []string
	}{
		{status: 429, want: []string{"429 Too Many Requests"}},
		{status: 429, headers: map[string]string{"Retry-After": "7"}, want: []string{"Throttle (7s)", "429"}},
		{status: 439, want: []string{"439"}},
		{status: 503, want: []string{"503", "/v2.1/track", "busy"}},
		{status: 507, want: []string{"507"}},
		{status: 511, want: []string{"511"}}, // a captive portal
		{status: 522, want: []string{"522"}},
		{status: 401, want: []string{"401"}},
		{status: 400, permanent: true, want: []string{"400", "InstrumentationKey"}},
		{status: 402, permanent: true, want: []string{"402"}},
	} {
		t.Run(fmt.Sprint(test.status, test.headers), func(t *testing.T) {
			s := newService(t)
			s.status, s.headers, s.answer = test.status, test.headers, "busy\n"
			err := start(t, s).push(t.Context(), deltas())
			require.Error(t, err)
			require.Equal(t, test.permanent, consumererror.IsPermanent(err), "%v", err)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// TestTooOld: what waited too long is lost by its age, and not by a wrong key.
func TestTooOld(t *testing.T) {
	s := newService(t)
	e := start(t, s)
	s.status = http.StatusBadRequest
	s.answer = `{"itemsReceived":1,"itemsAccepted":0,"appId":null,"errors":[{"index":0,"statusCode":400,"message":"103: Field \u0027time\u0027 on type 'Envelope' is older than the allowed min date. Expected: now - 172800000ms"}]}`
	err := e.push(t.Context(), deltas())
	require.True(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, "older than the allowed min date")
	require.NotContains(t, err.Error(), "InstrumentationKey")

	s.answer = `{"itemsReceived":1,"itemsAccepted":0,"errors":[{"index":0,"statusCode":400,"message":"Invalid instrumentation key"}]}`
	require.ErrorContains(t, e.push(t.Context(), deltas()), "check the connection_string's InstrumentationKey")
}

func TestAway(t *testing.T) {
	s := newService(t)
	e := start(t, s)
	s.Close()
	err := e.push(t.Context(), deltas())
	require.False(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, s.URL)
	require.ErrorContains(t, err, "connection refused")
}

// TestPartial: only what the service was too busy for is sent again.
func TestPartial(t *testing.T) {
	s := newService(t)
	e := start(t, s)
	s.status = http.StatusPartialContent
	s.answer = `{"itemsReceived":4,"itemsAccepted":1,"errors":[{"index":1,"statusCode":429,"message":"x"},{"index":2,"statusCode":400,"message":"bad"},{"index":3,"statusCode":500,"message":"x"}]}`
	err := e.push(t.Context(), deltas())
	require.False(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, "took 1 of 4 points; 2 are sent again: 500")
	var again consumererror.Metrics
	require.ErrorAs(t, err, &again)
	s.got, s.status = nil, http.StatusOK
	require.NoError(t, e.push(t.Context(), again.Data()))
	require.Len(t, s.got, 2)
	require.EqualValues(t, 1, s.got[0].Data.BaseData.Metrics[0].Value)
	require.EqualValues(t, 3, s.got[1].Data.BaseData.Metrics[0].Value)

	// Nothing was taken: not lost without a word.
	s.status = http.StatusPartialContent
	for answer, want := range map[string]string{
		`{}`: "none of 4 points was taken; the first: the service took 0 of 4 points, and doesn't say what became of 4",
		`{"itemsReceived":4,"errors":[{"index":4,"statusCode":429},{"index":-1,"statusCode":429}]}`:                "doesn't say what became of 4",
		`{"itemsReceived":4,"errors":[{"index":1,"statusCode":400,"message":"bad"},{"index":7,"statusCode":400}]}`: `metric "k8s.pod.network.io": 400 bad`,
		"<html>": "its answer can't be read",
	} {
		s.answer = answer
		err = e.push(t.Context(), deltas())
		require.True(t, consumererror.IsPermanent(err), "%s: %v", answer, err)
		require.ErrorContains(t, err, want)
	}
	s.answer = `{"itemsReceived":4,"itemsAccepted":1,"errors":[{"index":1,"statusCode":429,"message":"x"}]}`
	err = e.push(t.Context(), deltas())
	require.ErrorAs(t, err, &again)
	require.Equal(t, 1, again.Data().DataPointCount(), "the others may have been taken")
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	require.Equal(t, 90*time.Second, retryAfter("90", now))
	require.Equal(t, time.Minute, retryAfter("Mon, 30 Nov 2026 12:01:00 GMT", now))
	require.Zero(t, retryAfter("", now))
	// A wrong clock, or an absurd number, is no pause of years.
	require.Equal(t, time.Hour, retryAfter("Tue, 30 Nov 2027 12:01:00 GMT", now))
	require.Equal(t, time.Hour, retryAfter("86400", now))
	require.Equal(t, time.Hour, retryAfter("9223372036854775807", now))
	require.LessOrEqual(t, retryAfter("-9", now), time.Duration(0))
	require.Zero(t, retryAfter("soon", now))
}
