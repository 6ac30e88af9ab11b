//go:build !linux

// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import "errors"

// verbose says whether a sandbox's verbose information is of use: it is asked
// for the Linux network namespace.
const verbose = false

func netnsInode(string) (uint64, error) { return 0, errors.ErrUnsupported }
