// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers its packager, as does the next
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// linuxPackages writes a deb and an rpm as distribution/packages/nfpm.yaml
// describes them. nfpm takes the files' times from SOURCE_DATE_EPOCH.
func (r release) linuxPackages(p program) error {
	config, err := nfpm.ParseFileWithEnvMapping("distribution/packages/nfpm.yaml", func(name string) string {
		return map[string]string{"BINARY": p.path, "ARCH": p.arch, "VERSION": r.version}[name]
	})
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
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
		if err := create(info.Target, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}
