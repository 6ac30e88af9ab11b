// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Config is the configuration of one state file.
type Config struct {
	// Path is the file, or the directory for the formats that are one. Empty
	// means the usual place of Format.
	Path string `mapstructure:"path"`
	// Format is one of the formats in STATEFILES.md. Empty means that it is told
	// from what is found at Path.
	Format string `mapstructure:"format"`
	// PollInterval is how often Path is looked at even if no change was
	// notified.
	PollInterval time.Duration `mapstructure:"poll_interval"`
}

// NewDefaultConfig returns the configuration that the user's is laid over.
func NewDefaultConfig() *Config {
	return &Config{PollInterval: 10 * time.Second}
}

// Validate reports every wrong key, its value and what is allowed.
func (c *Config) Validate() error {
	var errs []error
	switch {
	case c.Format != "" && !slices.Contains(formatNames, c.Format):
		errs = append(errs, fmt.Errorf("format: %q is unknown; allowed are %s, or none to have it detected",
			c.Format, strings.Join(formatNames, ", ")))
	case c.Path == "" && c.Format == "":
		errs = append(errs, errors.New("path: is empty; give the state file's path, or a format to look for in its usual place"))
	case c.Path == "" && len(usualPaths(runtime.GOOS, c.Format)) == 0:
		errs = append(errs, fmt.Errorf("path: is empty, and format %q has no usual place on %s", c.Format, runtime.GOOS))
	}
	if c.PollInterval <= 0 {
		errs = append(errs, fmt.Errorf("poll_interval: %s is not allowed; it must be above 0", c.PollInterval))
	} else if c.PollInterval < time.Millisecond {
		errs = append(errs, fmt.Errorf("poll_interval: %s is not allowed; it must be 1ms or more, and a number without a unit means nanoseconds: write such as 10s", c.PollInterval))
	}
	return errors.Join(errs...)
}
