// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps attachments in a Collector storage extension, so that a
// restart forgets nothing. A change is kept when the call that made it returns.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Attachment is all that is known of one workload's attachment. It is immutable
// once it has been put into a journal.
type Attachment struct {
	WorkloadID string `json:"id"`
	// NetNSPath and IfName are the request's, NetNS is the namespace's inode.
	NetNSPath string `json:"netns_path"`
	NetNS     uint64 `json:"netns"`
	IfName    string `json:"if_name"`
	// Workload is nil if the record was lost and only the link was found.
	Workload *Workload `json:"workload,omitempty"`
	DNS      *DNS      `json:"dns,omitempty"`
	// Addresses are at most one a family, IPv4 first.
	Addresses     []netip.Addr `json:"addresses"`
	MAC           string       `json:"mac"`
	HostInterface string       `json:"host_interface"`
	HostIndex     int          `json:"host_index"`
	At            time.Time    `json:"at"`
}

// Workload is the identity that came with the request.
type Workload struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DNS is the request's resolver configuration.
type DNS struct {
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// Released are addresses that a workload gave back and that may not be given to
// another one yet.
type Released struct {
	Addresses []netip.Addr `json:"addresses"`
	At        time.Time    `json:"at"`
}

const (
	version = 1
	// numShards bounds both what a start reads and what a change writes: the
	// storage API lists no keys, and one key for everything would be rewritten
	// whole on every change.
	numShards = 256
)

// shard is what one storage key holds: a share of the attachments by their id.
type shard struct {
	attachments map[string]*Attachment
	released    []Released
	// probed: it is stored even if it is empty. To delete what is not there needs
	// no room on the disk.
	probed bool
}

// shardJSON is a shard as it is stored.
type shardJSON struct {
	Version     int           `json:"version"`
	Attachments []*Attachment `json:"attachments,omitempty"`
	Released    []Released    `json:"released,omitempty"`
}

func shardKey(n int) string { return fmt.Sprintf("attachments/%02x", n) }

func shardOf(workloadID string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workloadID))
	return int(h.Sum32() % numShards)
}

// encode returns the shard's stored form, nil if there is nothing to store.
// Releases from before since have cooled down and are left out.
func (s *shard) encode(since time.Time) ([]byte, error) {
	s.released = slices.DeleteFunc(s.released, cooledDown(since))
	if len(s.attachments) == 0 && len(s.released) == 0 && !s.probed {
		return nil, nil
	}
	stored := shardJSON{Version: version, Released: s.released}
	for _, a := range s.attachments {
		stored.Attachments = append(stored.Attachments, a)
	}
	return json.Marshal(stored)
}

// cooledDown says of releases whether they are from before since.
func cooledDown(since time.Time) func(Released) bool {
	return func(r Released) bool { return r.At.Before(since) }
}

// errVersion: the shard was written by a later version of this extension.
var errVersion = errors.New("written by a later version")

// decode reads a stored shard. The error wraps errVersion where that is the reason.
func decode(b []byte) (*shard, error) {
	var stored shardJSON
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, err
	}
	switch {
	case stored.Version > version:
		return nil, fmt.Errorf("%w: it has version %d, known is %d", errVersion, stored.Version, version)
	case stored.Version < 1:
		return nil, fmt.Errorf("it has version %d", stored.Version)
	}
	s := &shard{attachments: map[string]*Attachment{}, released: stored.Released}
	for i, a := range stored.Attachments {
		if a == nil || a.WorkloadID == "" || !valid(a.Addresses) {
			return nil, fmt.Errorf("attachment %d lacks its id or an address", i)
		}
		s.attachments[a.WorkloadID] = a
	}
	for i, r := range stored.Released {
		if !valid(r.Addresses) {
			return nil, fmt.Errorf("release %d lacks an address", i)
		}
	}
	return s, nil
}

func valid(addrs []netip.Addr) bool {
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsValid() })
}
