// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A file is one of an archive.
type file struct {
	name string // in the archive
	path string // of its content
	mode fs.FileMode
}

// archive writes the binary with what a user needs beside it, as tar.gz for
// Linux and zip for Windows.
func (r release) archive(p program) error {
	top := fmt.Sprintf("otelcol-retina_%s_%s_%s", r.version, p.os, p.arch)
	name := "otelcol-retina"
	if p.os == "windows" {
		name += ".exe"
	}
	files := []file{
		{path.Join(top, name), p.path, 0o755},
		{path.Join(top, "LICENSE"), "LICENSE", 0o644},
		{path.Join(top, "README.md"), "README.md", 0o644},
	}
	patterns := []string{"distribution/config/*.yaml", "distribution/dashboards/*.json", "distribution/alerts/*.yaml"}
	if p.os == "windows" {
		patterns = append(patterns, "distribution/windows/*.ps1", "distribution/windows/config.yaml", "distribution/windows/README.md")
	} else {
		patterns = append(patterns, "distribution/packages/*.service", "distribution/packages/*.sysusers",
			"distribution/packages/*.env", "distribution/packages/drop-ins/*.conf", "distribution/packages/README.md")
	}
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		if len(matches) == 0 {
			return fmt.Errorf("no files %s: is this the repository's root?", pattern)
		}
		for _, m := range matches {
			files = append(files, file{path.Join(top, strings.TrimPrefix(filepath.ToSlash(m), "distribution/")), m, 0o644})
		}
	}
	if p.os == "windows" {
		return create(r.artifact(p, "zip"), func(w io.Writer) error { return writeZip(w, files, r.time) })
	}
	return create(r.artifact(p, "tar.gz"), func(w io.Writer) error { return writeTarGz(w, files, r.time) })
}

const chartDir = "distribution/helm/otelcol-retina"

// chartVersions are the chart's own version and that of the image it names.
var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): *"?([^"\s]*)`)

// checkChart refuses a release under another version than the chart has.
func checkChart(version string) error {
	chart := filepath.Join(chartDir, "Chart.yaml")
	content, err := os.ReadFile(chart)
	if err != nil {
		return err
	}
	found := chartVersions.FindAllStringSubmatch(string(content), -1)
	if len(found) != 2 {
		return fmt.Errorf("%s: want version and appVersion, found %q", chart, found)
	}
	for _, f := range found {
		if f[2] != version {
			return fmt.Errorf("%s has %s %s, and -version is %s: make them the same", chart, f[1], f[2], version)
		}
	}
	return nil
}

// chart writes the Helm chart as `helm package` would.
func (r release) chart() error {
	var files []file
	err := filepath.WalkDir(chartDir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, file{strings.TrimPrefix(filepath.ToSlash(p), "distribution/helm/"), p, 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	out := filepath.Join(r.out, fmt.Sprintf("otelcol-retina-chart-%s.tgz", r.version))
	return create(out, func(w io.Writer) error { return writeTarGz(w, files, r.time) })
}

// create writes a file; on an error none is left.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func writeTarGz(w io.Writer, files []file, mtime time.Time) error {
	zw := gzip.NewWriter(w)
	tw := tar.NewWriter(zw)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(content)), ModTime: mtime, Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(tw.Close(), zw.Close())
}

func writeZip(w io.Writer, files []file, mtime time.Time) error {
	zw := zip.NewWriter(w)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: mtime}
		h.SetMode(f.mode)
		fw, err := zw.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := fw.Write(content); err != nil {
			return err
		}
	}
	return zw.Close()
}
