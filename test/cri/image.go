// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// WriteImages writes an OCI layout, as "ctr images import" takes it, that holds
// the same image under every reference: a static busybox and nothing else, which
// sleeps by default, so that it serves as the pause image too.
func WriteImages(w io.Writer, busybox string, references ...string) error {
	binary, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	layer, err := busyboxLayer(binary)
	if err != nil {
		return err
	}
	l := layout{tar: tar.NewWriter(w)}
	config := l.blob("application/vnd.oci.image.config.v1+json", mustJSON(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": []string{"/bin/sleep", "2147483647"},
			"Env":        []string{"PATH=/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	}))
	manifest := l.blob("application/vnd.oci.image.manifest.v1+json", mustJSON(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config,
		"layers": []descriptor{l.blob("application/vnd.oci.image.layer.v1.tar", layer)},
	}))
	manifest.Platform = map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	var index []descriptor
	for _, reference := range references {
		named := manifest
		named.Annotations = map[string]string{"io.containerd.image.name": reference}
		index = append(index, named)
	}
	l.file("index.json", mustJSON(map[string]any{"schemaVersion": 2, "manifests": index}))
	l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	if l.err != nil {
		return l.err
	}
	return l.tar.Close()
}

func busyboxLayer(binary []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	headers := []tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(binary))},
	}
	for _, applet := range []string{"sh", "sleep", "ip", "wget", "nc", "httpd", "dd", "mkdir"} {
		headers = append(headers, tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"})
	}
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if h.Size > 0 {
			if _, err := w.Write(binary); err != nil {
				return nil, err
			}
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout writes the files of an OCI image layout and keeps the first error.
type layout struct {
	tar *tar.Writer
	err error
}

func (l *layout) file(name string, content []byte) {
	if l.err == nil {
		l.err = l.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))})
	}
	if l.err == nil {
		_, l.err = l.tar.Write(content)
	}
}

func (l *layout) blob(mediaType string, content []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(content), Size: len(content)}
	l.file("blobs/sha256/"+d.Digest[len("sha256:"):], content)
	return d
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only literals of this file come here
	}
	return b
}
