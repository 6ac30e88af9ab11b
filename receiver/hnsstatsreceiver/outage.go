// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hnsstatsreceiver

import (
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// outages has an error that stays the same from scrape to scrape logged once,
// and its end. The scraper controller by itself logs every scrape's.
type outages struct {
	logger *zap.Logger

	mu   sync.Mutex
	last string // the error of the last scrape, "" if it had none
}

// begun takes note of a scrape's error and reports whether it is news.
func (o *outages) begun(err string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := err != o.last
	o.last = err
	return news
}

// ended takes note of a scrape without an error.
func (o *outages) ended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != "" {
		o.logger.Info("All pod endpoints can be read again")
	}
	o.last = ""
}

// outageCore leaves out the errors that the scraper controller repeats.
type outageCore struct {
	zapcore.Core
	outages *outages
}

func (c *outageCore) With(fields []zapcore.Field) zapcore.Core {
	return &outageCore{Core: c.Core.With(fields), outages: c.outages}
}

func (c *outageCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write asks the core below whether it wants the entry, because its Check may
// count: the collector samples its log there.
func (c *outageCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if err := scrapeError(entry, fields); err != "" && !c.outages.begun(err) {
		return nil
	}
	if checked := c.Core.Check(entry, nil); checked != nil {
		checked.Write(fields...)
	}
	return nil
}

// scrapeError returns the error of an entry by which the scraper controller
// logs a scrape's failure, "" for any other entry.
func scrapeError(entry zapcore.Entry, fields []zapcore.Field) string {
	if entry.Message != "Error scraping metrics" {
		return ""
	}
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			return err.Error()
		}
	}
	return ""
}
