// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// podStore is the store that a client-go Reflector keeps equal to the API
// server's pods. It holds no objects: what is worth keeping goes to the sink,
// and only what the next event has to be compared with stays, some 100 bytes a
// pod. The reflector calls it from one goroutine.
type podStore struct {
	sink source.Sink
	want wanted
	now  func() time.Time
	pods map[podName]podState
	// current is when the last event or list came.
	current time.Time
}

var (
	_ cache.ReflectorStore         = (*podStore)(nil)
	_ cache.ReflectorBookmarkStore = (*podStore)(nil)
	_ cache.TransformingStore      = (*podStore)(nil)
)

// podName is what the API server allows once at a time, and a UID once ever.
type podName struct{ namespace, name string }

type podState struct {
	uid string
	// begin is when the pod took the addresses that addrs sums up.
	begin time.Time
	addrs uint64
	// over: the end has been reported. Nothing brings this UID back, unless it is
	// a mirror's.
	over bool
	// ended is when the pod was last over, zero for never. What a mirror's pod
	// holds afterwards, it got afterwards.
	ended time.Time
}

// holds reports whether uid is a pod whose end has not been reported.
func (st podState) holds(uid string) bool { return uid != "" && st.uid == uid && !st.over }

// endedAt returns when the pod ended: by the observation's word, unless that has
// yet to come; not before it began, which a word in whole seconds can say.
func (st podState) endedAt(o *observation, now time.Time) time.Time {
	if !o.over || o.overAt.IsZero() || o.overAt.After(now) {
		return now
	}
	if o.overAt.Before(st.begin) {
		return st.begin
	}
	return o.overAt
}

// follow returns the state that follows prev, the state of the pod's name, from
// an observation, and settles the record's Begin.
func follow(prev podState, o *observation, now time.Time) podState {
	same := prev.uid == o.record.Owner
	if !same {
		prev = podState{}
	}
	switch {
	case o.over:
		return podState{uid: o.record.Owner, over: true, ended: prev.endedAt(o, now)}
	case prev.over && !o.mirror:
		return prev
	}
	sum := addressSum(o.record.Addresses)
	switch {
	case same && !prev.over && prev.addrs == sum:
		// The status may have learnt more since, but a lease has one beginning.
		o.record.Begin = prev.begin
	case o.record.Begin.IsZero(), o.record.Begin.After(now),
		// New addresses need a later word than the one on the old ones.
		prev.addrs != 0 && sum != 0 && !o.record.Begin.After(prev.begin),
		!o.record.Begin.After(prev.ended):
		o.record.Begin = now
	}
	return podState{uid: o.record.Owner, begin: o.record.Begin, addrs: sum, ended: prev.ended}
}

func newPodStore(sink source.Sink, want wanted, now func() time.Time) *podStore {
	return &podStore{sink: sink, want: want, now: now, pods: map[podName]podState{}}
}

// Transformer lets the reflector reduce each pod while a list streams in, so
// that no list of whole pods is ever held.
func (s *podStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.observation(obj) }
}

func (s *podStore) observation(obj any) (*observation, error) {
	switch obj := obj.(type) {
	case *observation:
		return obj, nil
	case *corev1.Pod:
		return observe(obj, s.want), nil
	default:
		return nil, fmt.Errorf("the API server sent a %T where a pod was expected", obj)
	}
}

// Add takes a pod that is new to the watch.
func (s *podStore) Add(obj any) error { return s.put(obj) }

// Update takes a pod's new state.
func (s *podStore) Update(obj any) error { return s.put(obj) }

func (s *podStore) put(obj any) error {
	o, err := s.observation(obj)
	if err != nil {
		return err
	}
	now := s.tick()
	name := nameOf(o)
	prev := s.pods[name]
	if prev.uid != o.record.Owner && prev.holds(prev.uid) {
		// The name was given to a new pod: the old one's deletion went unseen.
		s.sink.End(prev.uid, now, true)
	}
	next := follow(prev, o, now)
	s.pods[name] = next
	switch {
	case !next.over:
		s.sink.Put(o.record)
	case prev.holds(next.uid):
		s.sink.End(next.uid, prev.endedAt(o, now), true)
	}
	return nil
}

// Delete takes the last state of a deleted pod, or a tombstone where that state
// was missed.
func (s *podStore) Delete(obj any) error {
	now := s.tick()
	if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		if tomb.Obj == nil {
			namespace, name, err := cache.SplitMetaNamespaceKey(tomb.Key)
			if err != nil {
				return fmt.Errorf("tombstone of a pod: %w", err)
			}
			s.forget(podName{namespace, name}, now)
			return nil
		}
		obj = tomb.Obj
	}
	o, err := s.observation(obj)
	if err != nil {
		return err
	}
	name, uid := nameOf(o), o.record.Owner
	if prev := s.pods[name]; prev.uid == uid {
		s.forget(name, prev.endedAt(o, now))
		return nil
	}
	// A late deletion: the name belongs to another pod by now, which keeps it.
	s.sink.End(uid, now, true)
	return nil
}

func (s *podStore) forget(name podName, at time.Time) {
	prev := s.pods[name]
	delete(s.pods, name)
	if prev.holds(prev.uid) {
		s.sink.End(prev.uid, at, true)
	}
}

// Replace takes a list of every pod. Pods that it leaves out were deleted while
// nobody watched, so they may have lost their addresses to others at any time
// since the watch was last heard of.
func (s *podStore) Replace(objs []any, _ string) error {
	heard := s.current
	now := s.tick()
	if heard.IsZero() {
		heard = now
	}
	pods := make(map[podName]podState, len(objs))
	records := make([]podidentity.Record, 0, len(objs))
	for i, obj := range objs {
		objs[i] = nil // the list is ours: let go of each object as it is done
		o, err := s.observation(obj)
		if err != nil {
			return err
		}
		name := nameOf(o)
		prev := s.pods[name]
		next := follow(prev, o, now)
		pods[name] = next
		switch {
		case !next.over:
			records = append(records, o.record)
		case prev.holds(next.uid):
			s.sink.End(next.uid, prev.endedAt(o, now), true)
		}
	}
	s.pods = pods
	s.sink.Replace(records, heard)
	return nil
}

// Bookmark takes the API server's word that the watch is up to date.
func (s *podStore) Bookmark(string) error {
	s.tick()
	s.sink.Synced()
	return nil
}

// Resync does nothing: there is no queue that could have lost something.
func (s *podStore) Resync() error { return nil }

func nameOf(o *observation) podName {
	return podName{namespace: o.record.Identity.Namespace, name: o.record.Identity.Name}
}

// tick notes that the API server was heard of, and returns the time.
func (s *podStore) tick() time.Time {
	s.current = s.now()
	return s.current
}
