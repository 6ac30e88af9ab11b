// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package podidentity is the contract between the component that knows which
// pod is which (the podidentity extension), those that ask it (the podenrich
// processor), and those that tell it (the workloadnet extension):
//
//	workloadnet ── Publisher ──▶ podidentity ◀── Resolver ── podenrich
package podidentity

import (
	"net/netip"
	"time"
)

// Identity is what is known of a pod. It is immutable once a Resolver has
// returned it: callers must not change its maps.
type Identity struct {
	// Name is the pod's name, Namespace its Kubernetes (or CRI) namespace.
	Name, Namespace string
	// UID is the pod's UID; empty where the source has none.
	UID string
	// Labels and Annotations are the pod's, nil where the source has none.
	Labels, Annotations map[string]string
}

// Record is what one source knows of one pod: its identity and the keys it
// holds from Begin until the source ends it.
type Record struct {
	// Owner names the holder of the keys within the source: the sandbox id
	// where there is one, else the pod's UID, else "namespace/name". A later
	// End names it, so that the late removal of an old pod never takes a key
	// from the new holder.
	Owner string
	// Identity is the pod's.
	Identity Identity
	// Sandbox, NetNS (inode) and HNSEndpoints are its strong keys, where known.
	Sandbox      string
	NetNS        uint64
	HNSEndpoints []string
	// Addresses are all its addresses, both families. Addresses that
	// NormalizeAddr refuses are ignored.
	Addresses []netip.Addr
	// HostNetwork marks a pod in the node's own network namespace: it owns
	// neither addresses nor the namespace and resolves by UID and Sandbox only.
	HostNetwork bool
	// Begin is when the pod took its keys, or any later time from which on it is
	// known to have held them, such as that of a file's last change. A time
	// before it took them makes data of the keys' last holder ambiguous. The zero
	// time means when the record was first seen.
	Begin time.Time
}

// Resolver answers which pod a key belongs to. It is safe for concurrent use,
// never blocks and never allocates.
type Resolver interface {
	// Resolve returns the pod that the query's strongest known key belonged to
	// at the query's time, and Found; or nil and the reason. The order of keys,
	// strongest first, is UID, Sandbox or Container, HNSEndpoint, NetNS, Address.
	// A key whose lease has ended or that is ambiguous ends the look-up: a weaker
	// key is asked only when no stronger one is known at all.
	Resolve(q Query) (*Identity, Outcome)
	// Synced is closed once every source has synced, or startup_timeout has
	// passed without.
	Synced() <-chan struct{}
	// Stopping is closed when the Collector begins to stop, which is before its
	// receivers do. A component that makes its sender wait for Synced must let go
	// then: a receiver ends only when what it has sent is answered.
	Stopping() <-chan struct{}
	// Want adds pod labels and annotations, by their exact keys, to those that
	// identities carry: a source that costs more the more it keeps leaves out
	// all others. A component calls it in its Start; what is wanted only after
	// every component has started may stay absent.
	Want(labels, annotations []string)
}

// Publisher takes identities from components that know them at first hand.
// It is safe for concurrent use; when a call returns, look-ups see the change.
type Publisher interface {
	// Publish begins or replaces the lease of r.Owner. It fails only on a record
	// that nothing could resolve to: no Owner, no Identity.Name, or no key.
	Publish(r Record) error
	// End ends owner's lease at the given time (the zero time means now).
	// An unknown owner is no error: the call may come twice.
	End(owner string, at time.Time)
}
