// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// fakeAPI is a fake of the API server's list and watch of pods, with its
// resource versions, streamed lists, expiry and refusals, so that the tests of
// this package decide when which of them happens. The tests in test/k8s put the
// real server through the same.
type fakeAPI struct {
	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each change
	rv      int
	pods    map[string]*corev1.Pod
	history []fakeEvent
	oldest  int // resource versions below are expired
	cut     int // counts the cuts of all watches

	refuse      map[string]bool // verbs
	err         error           // of every call
	noStreaming bool
	lists       int
	watches     int
}

type fakeEvent struct {
	rv int
	watch.Event
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{changed: make(chan struct{}), rv: 100, pods: map[string]*corev1.Pod{}, refuse: map[string]bool{}}
}

// set changes the fake; watches see it.
func (f *fakeAPI) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// put creates or updates a pod.
func (f *fakeAPI) put(pod *corev1.Pod) {
	f.set(func() {
		action := watch.Modified
		if f.pods[pod.Name] == nil {
			action = watch.Added
		}
		f.rv++
		pod = pod.DeepCopy()
		pod.ResourceVersion = strconv.Itoa(f.rv)
		f.pods[pod.Name] = pod
		f.history = append(f.history, fakeEvent{f.rv, watch.Event{Type: action, Object: pod}})
	})
}

func (f *fakeAPI) delete(name string) {
	f.set(func() {
		f.rv++
		pod := f.pods[name].DeepCopy()
		pod.ResourceVersion = strconv.Itoa(f.rv)
		delete(f.pods, name)
		f.history = append(f.history, fakeEvent{f.rv, watch.Event{Type: watch.Deleted, Object: pod}})
	})
}

// bookmark sends a bookmark to every watch.
func (f *fakeAPI) bookmark() {
	f.set(func() {
		f.rv++
		f.history = append(f.history, fakeEvent{f.rv, bookmarkEvent(f.rv, nil)})
	})
}

func bookmarkEvent(rv int, annotations map[string]string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(rv), Annotations: annotations},
	}}
}

// cutWatches ends every watch; forget also expires what they have seen so far.
func (f *fakeAPI) cutWatches(forget bool) {
	f.set(func() {
		f.cut++
		if forget {
			f.rv++
			f.oldest = f.rv
		}
	})
}

func (f *fakeAPI) permit(verb string, opts metav1.ListOptions) error {
	if f.refuse[verb] {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "",
			errors.New(`User "collector" cannot `+verb+` resource "pods" in API group "" at the cluster scope`))
	}
	if f.err != nil {
		return f.err
	}
	if rv, _ := strconv.Atoi(opts.ResourceVersion); verb == "watch" && rv > 0 && rv < f.oldest {
		return apierrors.NewResourceExpired("too old resource version")
	}
	return nil
}

func (f *fakeAPI) List(_ context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if err := f.permit("list", opts); err != nil {
		return nil, err
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(f.rv)}}
	for _, name := range slices.Sorted(maps.Keys(f.pods)) {
		list.Items = append(list.Items, *f.pods[name].DeepCopy())
	}
	return list, nil
}

func (f *fakeAPI) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches++
	if err := f.permit("watch", opts); err != nil {
		return nil, err
	}
	w := &fakeWatch{api: f, events: make(chan watch.Event), stop: make(chan struct{}), cut: f.cut}
	w.rv, _ = strconv.Atoi(opts.ResourceVersion)
	var first []watch.Event
	if opts.SendInitialEvents != nil {
		if f.noStreaming {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		for _, name := range slices.Sorted(maps.Keys(f.pods)) {
			first = append(first, watch.Event{Type: watch.Added, Object: f.pods[name]})
		}
		first = append(first, bookmarkEvent(f.rv, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
		w.rv = f.rv
	}
	go w.run(first)
	return w, nil
}

type fakeWatch struct {
	api    *fakeAPI
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
	rv     int
	cut    int
}

func (w *fakeWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *fakeWatch) Stop() { w.once.Do(func() { close(w.stop) }) }

func (w *fakeWatch) run(next []watch.Event) {
	defer close(w.events)
	for {
		for _, e := range next {
			select {
			case w.events <- e:
			case <-w.stop:
				return
			}
		}
		next = nil
		w.api.mu.Lock()
		changed, cut := w.api.changed, w.api.cut != w.cut
		for _, e := range w.api.history {
			if e.rv > w.rv {
				next = append(next, e.Event)
				w.rv = e.rv
			}
		}
		w.api.mu.Unlock()
		if cut {
			return
		}
		if len(next) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-w.stop:
			return
		}
	}
}
