// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers its packager, as does the next
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// linuxPackage writes a deb or an rpm as distribution/packages/nfpm.yaml
// describes it. nfpm takes the files' times from SOURCE_DATE_EPOCH.
func (r release) linuxPackage(format string, p program) error {
	config, err := nfpm.ParseFileWithEnvMapping("distribution/packages/nfpm.yaml", func(name string) string {
		return map[string]string{"BINARY": p.path, "ARCH": p.arch, "VERSION": r.version}[name]
	})
	if err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	info.Target = r.artifact(p, format)
	return create(info.Target, func(w io.Writer) error { return packager.Package(info, w) })
}
