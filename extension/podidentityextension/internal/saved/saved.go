// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package saved writes what the cache knows in a form that outlives the process,
// and reads it back: a gzip stream of JSON lines, a header first, then one line a
// record. gzip's checksum tells a damaged one.
package saved

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

var (
	// ErrDamaged: this is not what Encode wrote.
	ErrDamaged = errors.New("damaged")
	// ErrOtherBoot: it is from before the machine last started. Namespaces,
	// sandboxes and addresses have all been given out anew since.
	ErrOtherBoot = errors.New("from before the machine started")
)

const (
	version = 1
	// maxSize bounds what is stored, compressed; some 190,000 pods.
	maxSize = 16 << 20
	// maxLines bounds what is read, so that a damaged one can't fill the memory.
	maxLines = 1 << 30
)

type header struct {
	Version int       `json:"version"`
	Boot    string    `json:"boot"`
	At      time.Time `json:"at"`
}

// A Record is one source's word about one pod.
type Record struct {
	Source string
	Record podidentity.Record
	// Sure is when the record was last known to hold; as read, never zero. When
	// written, the zero time means the time of writing.
	Sure time.Time
}

// line is a Record as it is written. A pod on the host's network is written as
// one without namespace and addresses, which is all that the cache keeps of it.
type line struct {
	Source       string            `json:"source"`
	Owner        string            `json:"owner"`
	Name         string            `json:"name,omitempty"`
	Namespace    string            `json:"namespace,omitempty"`
	UID          string            `json:"uid,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Sandbox      string            `json:"sandbox,omitempty"`
	NetNS        uint64            `json:"netns,omitempty"`
	HNSEndpoints []string          `json:"hns_endpoints,omitempty"`
	Addresses    []netip.Addr      `json:"addresses,omitempty"`
	Begin        time.Time         `json:"begin"`
	Sure         *time.Time        `json:"sure,omitempty"`
}

// Encode writes records, which were seen at the given time on the given boot of
// the machine. What is beyond the size that is kept is left out; left says how
// many records that is.
func Encode(records iter.Seq[Record], boot string, at time.Time) (b []byte, left int, err error) {
	return encode(records, boot, at, maxSize)
}

func encode(records iter.Seq[Record], boot string, at time.Time, size int) (b []byte, left int, err error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, 0, err
	}
	lines := json.NewEncoder(zip)
	err = lines.Encode(header{Version: version, Boot: boot, At: at.UTC()})
	for r := range records {
		if err != nil {
			return nil, 0, err
		}
		if out.Len() >= size {
			left++
			continue
		}
		err = lines.Encode(lineOf(&r))
	}
	if err := errors.Join(err, zip.Close()); err != nil {
		return nil, 0, err
	}
	return out.Bytes(), left, nil
}

func lineOf(r *Record) *line {
	l := &line{
		Source: r.Source, Owner: r.Record.Owner,
		Name: r.Record.Identity.Name, Namespace: r.Record.Identity.Namespace, UID: r.Record.Identity.UID,
		Labels: r.Record.Identity.Labels, Annotations: r.Record.Identity.Annotations,
		Sandbox: r.Record.Sandbox, NetNS: r.Record.NetNS, HNSEndpoints: r.Record.HNSEndpoints,
		Addresses: r.Record.Addresses, Begin: r.Record.Begin.UTC(),
	}
	if !r.Sure.IsZero() {
		sure := r.Sure.UTC()
		l.Sure = &sure
	}
	return l
}

// Decode reads what Encode wrote: all of it or nothing.
func Decode(b []byte, boot string) ([]Record, error) {
	zip, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	lines := json.NewDecoder(io.LimitReader(zip, maxLines))
	var h header
	if err := lines.Decode(&h); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrDamaged, err)
	}
	if h.Version != version {
		return nil, fmt.Errorf("%w: has version %d, this is version %d", ErrDamaged, h.Version, version)
	}
	if h.At.IsZero() {
		return nil, fmt.Errorf("%w: header: has no time", ErrDamaged)
	}
	if !sameBoot(h.Boot, boot) {
		return nil, ErrOtherBoot
	}
	var records []Record
	for {
		var l line
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF):
			return records, nil
		case err != nil:
			return nil, fmt.Errorf("%w: record %d: %w", ErrDamaged, len(records)+1, err)
		case l.Owner == "" || l.Source == "":
			return nil, fmt.Errorf("%w: record %d: has no owner or no source", ErrDamaged, len(records)+1)
		}
		records = append(records, l.record(h.At))
	}
}

func (l *line) record(at time.Time) Record {
	r := Record{Source: l.Source, Sure: at, Record: podidentity.Record{
		Owner: l.Owner, Sandbox: l.Sandbox, NetNS: l.NetNS, HNSEndpoints: l.HNSEndpoints, Addresses: l.Addresses, Begin: l.Begin,
		Identity: podidentity.Identity{Name: l.Name, Namespace: l.Namespace, UID: l.UID, Labels: l.Labels, Annotations: l.Annotations},
	}}
	if l.Sure != nil && l.Sure.Before(at) {
		r.Sure = *l.Sure
	}
	return r
}
