// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/scraper/scrapererror"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/metadata"
)

// endpointScraper turns what a Source visits into metrics, one resource an
// endpoint.
type endpointScraper struct {
	source  endpoint.Source
	builder *metadata.MetricsBuilder
	now     func() time.Time
	outages *outages
	host    component.Host
	failed  bool // the last scrape, as a whole

	series map[string]*series // by endpoint ID
	number uint64             // of the current scrape
	// metrics are the current scrape's, unless the builder has to make them all
	// because some are aggregated.
	metrics      pmetric.Metrics
	reaggregates bool
	aggregated   []columns
	plans        map[columns]*plan // few: platforms and their parts that can fail
}

func newScraper(cfg metadata.MetricsBuilderConfig, source endpoint.Source, outages *outages, set receiver.Settings) *endpointScraper {
	aggregated := aggregated(cfg.Metrics)
	return &endpointScraper{
		source:  source,
		builder: metadata.NewMetricsBuilder(cfg, set),
		now:     time.Now,
		outages: outages,
		series:  map[string]*series{},

		reaggregates: len(aggregated) > 0,
		aggregated:   aggregated,
		plans:        map[columns]*plan{},
	}
}

func (s *endpointScraper) start(ctx context.Context, host component.Host) error {
	s.host = host
	if err := s.source.Start(ctx); err != nil {
		return fmt.Errorf("read pod endpoints: %w", err)
	}
	return nil
}

func (s *endpointScraper) shutdown(context.Context) error { return s.source.Close() }

// scrape reads all endpoints. The failure of single ones is a partial scrape
// error; any other is the scrape's.
func (s *endpointScraper) scrape(ctx context.Context) (pmetric.Metrics, error) {
	s.number++
	s.metrics = pmetric.NewMetrics()
	s.metrics.ResourceMetrics().EnsureCapacity(len(s.series))
	err := s.source.Read(ctx, s.visit)
	metrics := s.metrics
	s.metrics = pmetric.Metrics{} // the next consumer's from now on
	if s.reaggregates {
		metrics = s.builder.Emit()
	}
	if errors.Is(context.Cause(ctx), errShutdown) {
		return metrics, nil // what was not read has not failed
	}

	failures, whole := endpointErrors(err)
	s.report(whole)
	if whole != nil {
		return pmetric.NewMetrics(), fmt.Errorf("read pod endpoints: %w", whole)
	}
	s.forget(failures)
	if len(failures) > 0 {
		return metrics, scrapererror.NewPartialScrapeError(summary(failures), len(failures))
	}
	s.outages.ended()
	return metrics, nil
}

// visit adds the points of one endpoint. They are stamped one by one: each must
// be younger than the moment at which the source knew the endpoint to be there,
// or its address could be looked up as its former holder's.
func (s *endpointScraper) visit(e *endpoint.Endpoint, c *endpoint.Counters) {
	now := pcommon.NewTimestampFromTime(s.now())
	sr := s.series[e.ID]
	if sr == nil {
		sr = newSeries(e, now)
		s.series[e.ID] = sr
	} else if !sr.isOf(e) {
		sr.rename(e, now)
	}
	sr.advance(c, now)
	sr.seen = s.number
	if s.reaggregates {
		whole := sr.row.withoutPartial(sr.totals.known, s.aggregated)
		s.record(e, &whole, sr.start, now)
		return
	}
	if sr.columns != sr.row.present {
		s.describe(sr, e)
	}
	sr.follow(s.metrics.ResourceMetrics(), now)
}

// forget frees the series of endpoints that are gone: those that were neither
// visited nor failed.
func (s *endpointScraper) forget(failures []*endpoint.Error) {
	for _, f := range failures {
		if sr := s.series[f.ID]; sr != nil {
			sr.seen = s.number
		}
	}
	for id, sr := range s.series {
		if sr.seen != s.number {
			delete(s.series, id)
		}
	}
}

// report tells the collector's status of a source that fails and recovers.
func (s *endpointScraper) report(err error) {
	switch {
	case err != nil && !s.failed:
		componentstatus.ReportStatus(s.host, componentstatus.NewRecoverableErrorEvent(err))
	case err == nil && s.failed:
		componentstatus.ReportStatus(s.host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
	s.failed = err != nil
}

// summary names some of the endpoints that failed, always in the same order, so
// that the same failures are known for the same.
func summary(failures []*endpoint.Error) error {
	const named = 5
	slices.SortFunc(failures, func(a, b *endpoint.Error) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	var errs []error
	for _, f := range failures[:min(named, len(failures))] {
		errs = append(errs, f)
	}
	if more := len(failures) - named; more > 0 {
		errs = append(errs, fmt.Errorf("and %d more endpoints", more))
	}
	return errors.Join(errs...)
}

// endpointErrors takes apart what a Source's Read returned: the failures of
// single endpoints, or one of the whole Read.
func endpointErrors(err error) (failures []*endpoint.Error, whole error) {
	if err == nil {
		return nil, nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, err := range errs {
		var failure *endpoint.Error
		if !errors.As(err, &failure) {
			return nil, err
		}
		failures = append(failures, failure)
	}
	return failures, nil
}
