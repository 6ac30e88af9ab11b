// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Command packaging makes what is released out of built programs: deb and rpm
// packages, archives, a container image, a bill of materials for each binary, and
// the checksums of all. The same input gives the same bytes: every time in the
// output is that of SOURCE_DATE_EPOCH.
//
//	packaging -version 0.1.0 -out dist linux/amd64=bin/otelcol-retina windows/amd64=…
//	packaging -version 0.1.0 -out dist -formats deb linux/amd64=bin/otelcol-retina
//
// It is run in the repository's root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A release is what all of its artifacts have in common.
type release struct {
	version string
	time    time.Time
	out     string // the directory that the artifacts go to
	formats map[string]bool
}

// formats are what can be made.
var formats = []string{"archive", "sbom", "deb", "rpm", "image", "chart"}

// A program is the binary for one platform.
type program struct {
	os, arch, path string
}

// artifact is the path of one artifact of a binary.
func (r release) artifact(p program, extension string) string {
	return filepath.Join(r.out, fmt.Sprintf("otelcol-retina_%s_%s_%s.%s", r.version, p.os, p.arch, extension))
}

func main() {
	version := flag.String("version", "", "the version, without a leading v")
	out := flag.String("out", "dist", "the directory to write to; it is emptied first")
	only := flag.String("formats", strings.Join(formats, ","), "what to make")
	flag.Parse()
	if err := run(*version, *out, strings.Split(*only, ","), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(version, out string, only, args []string) error {
	if version == "" {
		return errors.New("-version is required")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be the release's time in seconds: %w", err)
	}
	chosen := map[string]bool{}
	for _, f := range only {
		if !slices.Contains(formats, f) {
			return fmt.Errorf("-formats %q: must be some of %s", f, strings.Join(formats, ","))
		}
		chosen[f] = true
	}
	var programs []program
	for _, arg := range args {
		p, err := parseProgram(arg)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	if len(programs) == 0 {
		return errors.New("no binaries: give at least one as linux/amd64=path")
	}
	if chosen["chart"] {
		if err := checkChart(version); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	return release{version: version, time: time.Unix(epoch, 0).UTC(), out: out, formats: chosen}.make(programs)
}

func parseProgram(arg string) (program, error) {
	platform, path, ok := strings.Cut(arg, "=")
	goos, arch, ok2 := strings.Cut(platform, "/")
	if !ok || !ok2 || goos != "linux" && goos != "windows" {
		return program{}, fmt.Errorf("%q: must be linux/ARCH=PATH or windows/ARCH=PATH", arg)
	}
	if _, err := os.Stat(path); err != nil {
		return program{}, fmt.Errorf("%q: %w", arg, err)
	}
	return program{os: goos, arch: arch, path: path}, nil
}

// make writes all artifacts, the checksums last.
func (r release) make(programs []program) error {
	var linux []program
	for _, p := range programs {
		if p.os == "linux" {
			linux = append(linux, p)
		}
		for _, format := range formats {
			var err error
			switch {
			case !r.formats[format]:
			case format == "archive":
				err = r.archive(p)
			case format == "sbom":
				err = r.sbom(p)
			case p.os == "linux" && (format == "deb" || format == "rpm"):
				err = r.linuxPackage(format, p)
			}
			if err != nil {
				return fmt.Errorf("%s for %s/%s: %w", format, p.os, p.arch, err)
			}
		}
	}
	if r.formats["image"] && len(linux) > 0 {
		if err := r.image(linux); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	if r.formats["chart"] {
		if err := r.chart(); err != nil {
			return fmt.Errorf("chart: %w", err)
		}
	}
	return r.checksums()
}
