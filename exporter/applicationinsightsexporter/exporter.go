// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// maxAnswer is what is read of an answer; an item's error takes about 100 bytes.
const maxAnswer = 1 << 20

type insightsExporter struct {
	cfg      *Config
	set      component.TelemetrySettings
	resource resource
	refusals *refusalLog
	client   *http.Client
}

func newExporter(cfg *Config, set exporter.Settings) (*insightsExporter, error) {
	r, err := parseConnectionString(string(cfg.ConnectionString))
	if err != nil {
		return nil, fmt.Errorf("connection_string: %w", err)
	}
	refusals, err := newRefusalLog(set)
	if err != nil {
		return nil, err
	}
	return &insightsExporter{cfg: cfg, set: set.TelemetrySettings, resource: r, refusals: refusals}, nil
}

func (e *insightsExporter) start(ctx context.Context, host component.Host) (err error) {
	e.client, err = e.cfg.ClientConfig.ToClient(ctx, host.GetExtensions(), e.set)
	if err != nil {
		return err
	}
	e.client.CheckRedirect = checkRedirect
	return nil
}

// checkRedirect follows those redirects that send the data again (307, 308). At the
// others a client asks for a page instead, and would take that for the service's
// "thank you".
func checkRedirect(request *http.Request, via []*http.Request) error {
	if request.Method != http.MethodPost || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

func (e *insightsExporter) shutdown(context.Context) error {
	if e.client != nil {
		e.client.CloseIdleConnections()
	}
	return nil
}

// push sends the metrics in one request, but for points that can't be sent. Its
// error tells the fate of the others, as far as they can be tried again: refused
// points don't make a failure of a request that was taken. A permanent error means
// that nothing was; then the refused points are part of what the Collector says
// that it has dropped.
func (e *insightsExporter) push(ctx context.Context, metrics pmetric.Metrics) error {
	body, n, refused, err := encode(metrics, e.resource.instrumentationKey)
	if err != nil {
		return consumererror.NewPermanent(err)
	}
	switch {
	case n > 0:
		err = e.send(ctx, metrics, n, body, &refused)
	case len(refused) > 0:
		err = refused.nothingTaken()
	}
	// With any other error the same metrics come again, and the refused points.
	if _, rest := errors.AsType[consumererror.Metrics](err); err == nil || rest {
		e.refusals.take(ctx, refused)
	}
	return err
}

// send sends a body of n points, those of the metrics that can be sent. It adds
// those that the service refuses for good, while it took others.
func (e *insightsExporter) send(ctx context.Context, metrics pmetric.Metrics, n int, body []byte, refused *refusals) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.resource.url, bytes.NewReader(body))
	if err != nil {
		return consumererror.NewPermanent(err)
	}
	request.Header.Set("Content-Type", "application/x-json-stream")
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("send to Application Insights: %w", err) // names the URL
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", e.resource.url, err)
	}
	return e.judge(metrics, n, response, answer, refused)
}

// track is the service's answer, with an error for every item that it refused.
type track struct {
	Received int         `json:"itemsReceived"`
	Accepted int         `json:"itemsAccepted"`
	Errors   []itemError `json:"errors"`
}

type itemError struct {
	Index   int    `json:"index"`
	Status  int    `json:"statusCode"`
	Message string `json:"message"`
}

// judge makes of an answer what is to become of the metrics, of which n points were
// sent.
func (e *insightsExporter) judge(metrics pmetric.Metrics, n int, response *http.Response, answer []byte, refused *refusals) error {
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusPartialContent:
		return throttled(judgeItems(metrics, n, answer, refused), response)
	}
	err := fmt.Errorf("%s: %s: %s", e.resource.url, response.Status, excerpt(answer))
	if !retryable(response.StatusCode) {
		if response.StatusCode == http.StatusBadRequest && !namesTime(answer) {
			err = fmt.Errorf("%w (check the connection_string's InstrumentationKey)", err)
		}
		return consumererror.NewPermanent(err)
	}
	return throttled(err, response)
}

// namesTime reports whether an answer refuses items for their time, as those that
// are older than 48 hours:
//
//	103: Field 'time' on type 'Envelope' is older than the allowed min date. Expected: now - 172800000ms
func namesTime(answer []byte) bool {
	var t track
	return json.Unmarshal(answer, &t) == nil && slices.ContainsFunc(t.Errors, func(item itemError) bool {
		return strings.Contains(item.Message, "'time'")
	})
}

// throttled has what is tried again wait for as long as the service asks for.
func throttled(err error, response *http.Response) error {
	after := retryAfter(response.Header.Get("Retry-After"), time.Now())
	if err == nil || consumererror.IsPermanent(err) || after <= 0 {
		return err
	}
	return exporterhelper.NewThrottleRetry(err, after)
}

// judgeItems keeps those items to send again that the service was too busy for.
func judgeItems(metrics pmetric.Metrics, n int, answer []byte, refused *refusals) error {
	var t track
	if err := json.Unmarshal(answer, &t); err != nil {
		return consumererror.NewPermanent(fmt.Errorf("the service took a part of %d points, and its answer can't be read: %w: %s", n, err, excerpt(answer)))
	}
	again, forGood := map[int]bool{}, map[int]itemError{}
	busy := 0 // the last status of those to send again
	for _, item := range t.Errors {
		if retryable(item.Status) {
			again[item.Index], busy = true, item.Status
		} else {
			forGood[item.Index] = item
		}
	}
	rest := only(metrics, again)
	told := t.Accepted + rest.DataPointCount() + addItems(refused, metrics, forGood)
	if told < n {
		refused.add("", unknown, n-told, fmt.Errorf("the service took %d of %d points, and doesn't say what became of %d", t.Accepted, n, n-told))
	}
	switch {
	case rest.DataPointCount() > 0:
		return consumererror.NewMetrics(fmt.Errorf("the service took %d of %d points; %d are sent again: %d", t.Accepted, n, rest.DataPointCount(), busy), rest)
	case t.Accepted <= 0:
		return refused.nothingTaken()
	}
	return nil
}

// addItems adds to the refused points those items that the service refused for
// good, and returns how many of them were sent.
func addItems(refused *refusals, metrics pmetric.Metrics, items map[int]itemError) int {
	i, n := -1, 0
	_, _ = eachPoint(metrics, func(_ pcommon.Resource, m pmetric.Metric, _ pmetric.NumberDataPoint) error {
		i++
		if item, ok := items[i]; ok {
			n++
			refused.add(m.Name(), byService, 1, fmt.Errorf("%d %s", item.Status, excerpt([]byte(item.Message))))
		}
		return nil
	})
	return n
}

// only returns those of the points sent that have the given numbers, in the order of eachPoint.
func only(metrics pmetric.Metrics, numbers map[int]bool) pmetric.Metrics {
	kept := pmetric.NewMetrics()
	metrics.CopyTo(kept)
	i := -1
	drop := func(p pmetric.NumberDataPoint) bool {
		if !hasValue(p) || !isFinite(p) {
			return true // not among those that were sent
		}
		i++
		return !numbers[i]
	}
	kept.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				points, err := pointsOf(m)
				if err != nil {
					return true // not among those that were sent
				}
				points.RemoveIf(drop)
				return points.Len() == 0
			})
			return sm.Metrics().Len() == 0
		})
		return rm.ScopeMetrics().Len() == 0
	})
	return kept
}

// retryable are the statuses at which it is worth to try again: those at which
// Application Insights' own SDKs do, of which 439 is its "too many requests over
// extended time", and what a proxy or gateway before it may say: any failure of a
// server, and a redirect that can't be followed.
func retryable(status int) bool {
	if status >= 300 && status < 400 || status >= 500 {
		return true
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, // a token or a role that is not there yet
		http.StatusRequestTimeout, http.StatusTooManyRequests, 439:
		return true
	}
	return false
}

// maxPause bounds a pause that the service asks for: a date of its is compared
// with this machine's clock, which may be wrong, and a number may be anything.
const maxPause = time.Hour

// retryAfter reads a header of seconds or of a date; 0 if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(seconds, int(maxPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(at.Sub(now), maxPause)
	}
	return 0
}

// excerpt puts the beginning of an answer into one line.
func excerpt(b []byte) string {
	return cut(strings.Join(strings.Fields(string(b)), " "), 300)
}
