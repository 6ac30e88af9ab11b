// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checksums writes SHA256SUMS, for `sha256sum --check`.
func (r release) checksums() error {
	entries, err := os.ReadDir(r.out) // sorted by name
	if err != nil {
		return err
	}
	return create(filepath.Join(r.out, "SHA256SUMS"), func(w io.Writer) error {
		for _, e := range entries {
			sum, err := checksum(filepath.Join(r.out, e.Name()))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%x  %s\n", sum, e.Name()); err != nil {
				return err
			}
		}
		return nil
	})
}

func checksum(path string) (sum []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
