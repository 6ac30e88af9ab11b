// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import "errors"

// The errors that go-cni has. Those that the proxy itself returns wrap
// ErrCNINotInitialized when the service does not answer or cannot attach anything
// yet, ErrNotFound when it knows nothing of the workload or its namespace, and
// ErrInvalidConfig when it is asked for what it does not do.
var (
	ErrCNINotInitialized = errors.New("cni plugin not initialized")
	ErrInvalidConfig     = errors.New("invalid cni config")
	ErrNotFound          = errors.New("not found")
	ErrRead              = errors.New("failed to read config file")
	ErrInvalidResult     = errors.New("invalid result")
	ErrLoad              = errors.New("failed to load cni config")
)

// IsCNINotInitialized says whether err is because the network is not ready.
func IsCNINotInitialized(err error) bool { return errors.Is(err, ErrCNINotInitialized) }

// IsInvalidConfig says whether err is because of the configuration or request.
func IsInvalidConfig(err error) bool { return errors.Is(err, ErrInvalidConfig) }

// IsNotFound says whether err is because something is not there.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// IsReadFailure says whether err is because a file could not be read.
func IsReadFailure(err error) bool { return errors.Is(err, ErrRead) }

// IsInvalidResult says whether err is because of a result.
func IsInvalidResult(err error) bool { return errors.Is(err, ErrInvalidResult) }
