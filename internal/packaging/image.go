// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is distroless's "nonroot". It has no capabilities: a gateway needs
// none, and what reads a node's counters is given them and root's number by its
// manifest (distribution/kubernetes/README.md says why).
const imageUser = "65532:65532"

// image writes one OCI image layout for all Linux programs, as a tar file that
// `ctr images import`, `podman load` and `skopeo copy oci-archive:` take. It has
// what distribution/Dockerfile gives: nothing but the program, its default
// configuration and the certification authorities of Mozilla.
func (r release) image(programs []program) error {
	index := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	for _, p := range programs {
		img, err := r.platformImage(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	dir, err := os.MkdirTemp("", "otelcol-retina-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd names what it imports by its own annotation, others by the tag.
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          "localhost/otelcol-retina:" + r.version,
		"org.opencontainers.image.ref.name": r.version,
	}))
	if err != nil {
		return err
	}
	out := filepath.Join(r.out, fmt.Sprintf("otelcol-retina_%s_linux.oci.tar", r.version))
	return create(out, func(w io.Writer) error { return writeTar(w, dir, r.time) })
}

func (r release) platformImage(p program) (v1.Image, error) {
	root, err := r.imageRoot(p)
	if err != nil {
		return nil, err
	}
	// Compressed once, or the library would do it once for the digest and again
	// for the content.
	compressed := &bytes.Buffer{}
	zw := gzip.NewWriter(compressed)
	_, err = zw.Write(root)
	if err := errors.Join(err, zw.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(compressed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS:           p.os,
		Architecture: p.arch,
		Created:      v1.Time{Time: r.time},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       imageUser,
			Entrypoint: []string{"/otelcol-retina"},
			Cmd:        []string{"--config=/etc/otelcol-retina/config.yaml"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "otelcol-retina",
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source":   "https://github.com/otelcol-retina/otelcol-retina",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make packages"},
	})
}

// imageRoot is the image's root directory as a tar file.
func (r release) imageRoot(p program) ([]byte, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile("distribution/config/default.yaml")
	if err != nil {
		return nil, err
	}
	buf := &bytes.Buffer{}
	tw := tar.NewWriter(buf)
	for _, f := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/", 0o755, nil},
		{"etc/otelcol-retina/", 0o755, nil},
		{"etc/otelcol-retina/config.yaml", 0o644, config},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"otelcol-retina", 0o755, binary},
		{"tmp/", 0o1777, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.time, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if f.content == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := tw.Write(f.content); err != nil {
			return nil, err
		}
	}
	err = tw.Close()
	return buf.Bytes(), err
}

// authorities are Mozilla's root certificates as PEM. Those that Mozilla trusts
// with a restriction, which PEM can't tell, are left out.
func authorities() []byte {
	buf := &bytes.Buffer{}
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(buf, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return buf.Bytes()
}

// writeTar writes the files below dir.
func writeTar(w io.Writer, dir string, mtime time.Time) error {
	tw := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: mtime, Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err = tw.Write(content)
		return err
	})
	return errors.Join(err, tw.Close())
}
