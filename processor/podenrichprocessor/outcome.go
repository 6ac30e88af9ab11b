// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"

	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor/internal/metadata"
)

// outcome is how one look-up ended: podidentity's outcomes and those that the
// resolver has no part in.
type outcome uint8

const (
	found   = outcome(podidentity.Found)
	unknown = outcome(podidentity.Unknown)
)

const (
	// noKey: nothing on the data says which pod it is of.
	noKey = outcome(podidentity.NumOutcomes) + iota
	// unusableKey: a key is there, with a value that can't tell a pod.
	unusableKey
	// conflict: the data has another pod's name already.
	conflict
	numOutcomes
)

func (o outcome) String() string {
	switch o {
	case noKey:
		return "no_key"
	case unusableKey:
		return "unusable_key"
	case conflict:
		return "conflict"
	}
	return podidentity.Outcome(o).String()
}

// tally counts the outcomes of one batch, so that the instruments are touched
// once a batch.
type tally struct {
	resources, items, peers [numOutcomes]int64
}

// counters are the processor's own metrics.
type counters struct {
	telemetry *metadata.TelemetryBuilder
	// byOutcome and plain are the attributes of the counts, made once.
	byOutcome [numOutcomes][]metric.AddOption
	plain     []metric.AddOption
}

func newCounters(set processor.Settings, signal pipeline.Signal) (*counters, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	// The same two attributes as the processor_incoming_items of every
	// processor, so that the counts can be set against each other.
	plain := []attribute.KeyValue{
		attribute.String("processor", set.ID.String()),
		attribute.String("otel.signal", signal.String()),
	}
	c := &counters{telemetry: telemetry, plain: addOption(plain)}
	for o := range numOutcomes {
		c.byOutcome[o] = addOption(append(plain, attribute.String("outcome", o.String())))
	}
	return c, nil
}

func addOption(attrs []attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
}

func (c *counters) add(ctx context.Context, t *tally) {
	for o := range numOutcomes {
		if n := t.resources[o]; n > 0 {
			c.telemetry.ProcessorPodenrichResources.Add(ctx, n, c.byOutcome[o]...)
			c.telemetry.ProcessorPodenrichItems.Add(ctx, t.items[o], c.byOutcome[o]...)
		}
		if n := t.peers[o]; n > 0 {
			c.telemetry.ProcessorPodenrichPeers.Add(ctx, n, c.byOutcome[o]...)
		}
	}
}

func (c *counters) drop(ctx context.Context, items int) {
	c.telemetry.ProcessorPodenrichDroppedItems.Add(ctx, int64(items), c.plain...)
}
