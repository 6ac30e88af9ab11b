// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// CheckPages takes what `print-config --format=json` says of a configuration, and
// returns an error if a Prometheus page in it would lose living pods: it keeps a
// series for metric_expiration, which has to be more than two collections, so that
// one that is late or fails takes nothing away.
func CheckPages(config []byte) error {
	var c struct {
		Receivers map[string]struct {
			Interval time.Duration `json:"collection_interval"`
		} `json:"receivers"`
		Exporters map[string]struct {
			Expiration time.Duration `json:"metric_expiration"`
		} `json:"exporters"`
		Service struct {
			Pipelines map[string]struct{ Receivers, Exporters []string } `json:"pipelines"`
		} `json:"service"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("read a printed configuration: %w", err)
	}
	for name, p := range c.Service.Pipelines {
		for _, e := range p.Exporters {
			if kind, _, _ := strings.Cut(e, "/"); kind != "prometheus" {
				continue
			}
			for _, r := range p.Receivers {
				if expiration, interval := c.Exporters[e].Expiration, c.Receivers[r].Interval; expiration <= 2*interval {
					return fmt.Errorf("pipeline %s: metric_expiration %v of %s is not more than two of %v, collection_interval of %s", name, expiration, e, interval, r)
				}
			}
		}
	}
	return nil
}
