// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

const ownModule = "github.com/otelcol-retina/otelcol-retina"

// sbom writes the bill of materials of a binary: the modules that the Go linker
// noted in it, with their versions and checksums, as CycloneDX JSON.
func (r release) sbom(p program) error {
	generator, err := bin.NewGenerator(p.path, bin.WithLogger(zerolog.Nop()), bin.WithIncludeStdlib(true), bin.WithVersionOverride("v"+r.version))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	r.nameOwnModule(bom)
	bom.Metadata.Timestamp = r.time.Format(time.RFC3339)
	return create(r.artifact(p, "cdx.json"), func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// nameOwnModule gives the module of this repository its name. The linker notes
// it as the directory that replaces it in the builder's go.mod.
func (r release) nameOwnModule(bom *cyclonedx.BOM) {
	var old, purl string
	for i := range *bom.Components {
		c := &(*bom.Components)[i]
		if !strings.HasPrefix(c.Name, ".") && !strings.HasPrefix(c.Name, "/") {
			continue
		}
		old, purl = c.BOMRef, "pkg:golang/"+ownModule+"@v"+r.version+"?type=module"
		c.Name, c.Version, c.BOMRef, c.PackageURL = ownModule, "v"+r.version, purl, purl
	}
	if bom.Dependencies == nil {
		return
	}
	for i := range *bom.Dependencies {
		d := &(*bom.Dependencies)[i]
		if d.Ref == old {
			d.Ref = purl
		}
		if d.Dependencies == nil {
			continue
		}
		for j, ref := range *d.Dependencies {
			if ref == old {
				(*d.Dependencies)[j] = purl
			}
		}
	}
}
