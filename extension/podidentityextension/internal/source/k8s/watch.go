// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// listTimeout bounds one list call; a list of 150,000 pods takes seconds.
	listTimeout = 2 * time.Minute
	// watchSlack is how much longer than the server was told to keep a watch
	// open the source waits for its end.
	watchSlack = 30 * time.Second
)

// podsAPI is what the source asks of the API server: podsClient, or a fake.
type podsAPI interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// podWatch lists and watches pods for a Reflector and reports how that goes:
// the reflector retries for ever and only logs.
type podWatch struct {
	api    podsAPI
	server string // its URL
	fields string // the field selector; empty for all pods
	health *health
	lists  calls
	// streams: the reflector asks for the first list as a watch.
	streams atomic.Bool
	// refused is why the last watch was refused, nil if it wasn't.
	refused atomic.Pointer[error]
}

func (w *podWatch) listWatch() *cache.ListWatch {
	return &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
}

// list is asked where the server can't stream a list as a watch. It fails while
// watching is refused: a list that nothing follows up is out of date at once,
// and fetching it at every retry would only cost.
func (w *podWatch) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if !w.lists.begin() {
		return nil, context.Canceled
	}
	defer w.lists.wg.Done()
	if w.refused.Load() != nil && !w.streams.Load() {
		probe, err := w.watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(1))})
		if err == nil {
			probe.Stop()
		}
	}
	if refused := w.refused.Load(); refused != nil {
		return nil, *refused
	}
	opts.FieldSelector = w.fields
	callCtx, _ := attempting(ctx, func(err error) { w.failed(ctx, "list", err) })
	callCtx, cancel := context.WithTimeout(callCtx, listTimeout)
	defer cancel()
	list, err := w.api.List(callCtx, opts)
	if apierrors.IsForbidden(err) {
		w.health.failed("refused: list", refusedError(err, "list"))
		return nil, err
	}
	if err != nil {
		w.failed(ctx, "list", err)
		return nil, err
	}
	return list, nil
}

func (w *podWatch) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	streamed := opts.SendInitialEvents != nil
	if streamed {
		w.streams.Store(true)
	}
	opts.FieldSelector = w.fields
	callCtx, call := attempting(ctx, func(err error) { w.failed(ctx, "watch", err) })
	callCtx, cancel := context.WithTimeout(callCtx, time.Duration(*opts.TimeoutSeconds)*time.Second+watchSlack)
	pods, err := w.api.Watch(callCtx, opts)
	if err == nil && call.err != nil {
		pods.Stop() // the empty one
		err = call.err
	}
	if apierrors.IsForbidden(err) {
		cancel()
		w.refused.Store(&err)
		w.reportRefusedWatch(ctx, err)
		return nil, err
	}
	w.refused.Store(nil)
	if err != nil {
		cancel()
		// A server that can't stream a list says so, and is asked for a plain one.
		if !streamed || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			w.failed(ctx, "watch", err)
		}
		return nil, err
	}
	if !streamed && w.health.recovered() {
		w.health.sink.Synced()
	}
	return &boundedWatch{Interface: pods, cancel: cancel}, nil
}

// reportRefusedWatch says which verbs are missing: it asks for the other one
// too, so that the operator learns of both at once.
func (w *podWatch) reportRefusedWatch(ctx context.Context, refused error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	_, err := w.api.List(ctx, metav1.ListOptions{FieldSelector: w.fields, Limit: 1})
	if apierrors.IsForbidden(err) {
		w.health.failed("refused: list, watch", refusedError(refused, "list", "watch"))
	} else {
		w.health.failed("refused: watch", refusedError(refused, "watch"))
	}
}

// refusedError names the verbs that the API server refuses.
func refusedError(err error, verbs ...string) error {
	quoted := `"` + strings.Join(verbs, `", "`) + `"`
	return fmt.Errorf(`not allowed to %s pods: grant the verbs %s on the resource "pods" in every namespace to the collector's account `+
		`(distribution/kubernetes/rbac.yaml does): %w`, strings.Join(verbs, " and "), quoted, err)
}

// failed reports a call that failed for another reason than missing rights.
func (w *podWatch) failed(ctx context.Context, verb string, err error) {
	switch {
	case ctx.Err() != nil:
		return // the source is being shut down
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return // the reflector starts over with a new list: the ordinary way
	}
	trouble := "unreachable"
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		trouble = string(apierrors.ReasonForError(err))
	}
	if apierrors.IsUnauthorized(err) {
		err = fmt.Errorf("the API server does not accept the collector's credentials (auth_type): %w", err)
	}
	w.health.failed(trouble, fmt.Errorf("%s pods of %s: %w", verb, w.server, err))
}

// calls counts list calls under way: a reflector that is stopped does not wait
// for its own, and may even start one then.
type calls struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// begin counts a call, which ends with wg.Done; false after close.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	return true
}

// close lets no further call begin and waits for the others.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
}

// boundedWatch ends with its own deadline, in case the server never ends it.
type boundedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

func (b *boundedWatch) Stop() {
	b.Interface.Stop()
	b.cancel()
}
