// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package applicationinsightsexporter

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/exporter/applicationinsightsexporter/internal/metadata"
)

// reason is why a point is given up, as the counter of them has it.
type reason string

const (
	cumulativeSum   reason = "cumulative_sum"
	unsupportedType reason = "unsupported_type"
	notFinite       reason = "not_finite"
	byService       reason = "service"
	unknown         reason = "unknown"
)

// refusal is a number of points of one metric that are given up for good.
type refusal struct {
	metric string // "" where the service doesn't say
	reason reason
	points int
	err    error // of the first of them
}

// refusals are those of one request.
type refusals []refusal

func (r *refusals) add(metric string, why reason, points int, err error) {
	if points == 0 {
		return // a metric that has none
	}
	if last := len(*r) - 1; last >= 0 && (*r)[last].metric == metric && (*r)[last].reason == why {
		(*r)[last].points += points
		return
	}
	*r = append(*r, refusal{metric, why, points, err})
}

// nothingTaken is the end of a request all of whose points are refused.
func (r refusals) nothingTaken() error {
	points := 0
	for _, refusal := range r {
		points += refusal.points
	}
	err := r[0].err
	if r[0].metric != "" {
		err = fmt.Errorf("metric %q: %w", r[0].metric, err)
	}
	return consumererror.NewPermanent(fmt.Errorf("none of %d points was taken; the first: %w", points, err))
}

// maxWarnings bounds how many pairs of a metric and a reason the log has, and the
// memory for them: names come from outside.
const maxWarnings = 100

// refusalLog counts and logs what is refused of requests of which the rest is
// taken. The Collector's own counters and log know a request's fate as a whole
// only. It is safe for concurrent use.
type refusalLog struct {
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	exporter  attribute.KeyValue // as on the Collector's counters

	mu     sync.Mutex
	warned map[[2]string]bool // by metric and reason
}

func newRefusalLog(set exporter.Settings) (*refusalLog, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &refusalLog{
		logger: set.Logger, telemetry: telemetry, exporter: attribute.String("exporter", set.ID.String()),
		warned: map[[2]string]bool{},
	}, nil
}

func (l *refusalLog) take(ctx context.Context, refused refusals) {
	for _, r := range refused {
		l.telemetry.ExporterApplicationinsightsRefusedPoints.Add(ctx, int64(r.points),
			metric.WithAttributeSet(attribute.NewSet(l.exporter, attribute.String("reason", string(r.reason)))))
		if name := cut(r.metric, maxName); l.first(name, r.reason) {
			l.logger.Warn("Points are given up; this is logged once for a metric and a reason, and counted in otelcol_exporter_applicationinsights_refused_points",
				zap.String("metric", name), zap.String("reason", string(r.reason)), zap.Int("points", r.points), zap.Error(r.err))
		}
	}
}

func (l *refusalLog) first(metric string, why reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	pair := [2]string{metric, string(why)}
	if l.warned[pair] || len(l.warned) >= maxWarnings {
		return false
	}
	l.warned[pair] = true
	return true
}
