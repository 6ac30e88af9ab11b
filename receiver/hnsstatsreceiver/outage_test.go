// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestOutagesAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	o := &outages{logger: zap.New(core)}
	logger := zap.New(core).WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return &outageCore{Core: core, outages: o}
	})).With(zap.String("scraper", "hnsstats"))

	fail := func(err string) { logger.Error("Error scraping metrics", zap.Error(errors.New(err))) }
	fail("a")
	fail("a")
	fail("a and b")
	fail("a")
	logger.Error("something else", zap.Error(errors.New("a")))
	logger.Debug("not for this level")
	o.ended()
	o.ended()
	fail("a")

	var got []string
	for _, e := range logs.All() {
		text := e.Message
		if err, ok := e.ContextMap()["error"]; ok {
			text += ": " + err.(string)
			require.Equal(t, "hnsstats", e.ContextMap()["scraper"])
		}
		got = append(got, text)
	}
	require.Equal(t, []string{
		"Error scraping metrics: a",
		"Error scraping metrics: a and b",
		"Error scraping metrics: a",
		"something else: a",
		"All pod endpoints can be read again",
		"Error scraping metrics: a",
	}, got)
}
