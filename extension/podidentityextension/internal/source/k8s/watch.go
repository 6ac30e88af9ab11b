// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
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

// podWatch lists and watches pods for a Reflector and reports how that goes, each
// attempt that fails: the reflector retries for ever and only logs.
type podWatch struct {
	api    podsAPI
	server string // its URL
	fields string // the field selector; empty for all pods
	sink   source.Sink
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
	callCtx, call := attempting(ctx, func(err error) { w.failed(ctx, err) })
	callCtx, cancel := context.WithTimeout(callCtx, listTimeout)
	defer cancel()
	list, err := w.api.List(callCtx, opts)
	if apierrors.IsForbidden(err) {
		w.sink.Failed(refusedError(err, "list"))
		return nil, err
	}
	if err != nil {
		if call.err == nil { // else it has been reported
			w.failed(ctx, err)
		}
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
	callCtx, call := attempting(ctx, func(err error) { w.failed(ctx, err) })
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
		plainOnly := streamed && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err))
		if !plainOnly && call.err == nil { // else it has been reported
			w.failed(ctx, err)
		}
		return nil, err
	}
	if !streamed && opts.ResourceVersion != "" { // it goes on from a list, which still stands
		w.sink.Synced()
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
		w.sink.Failed(refusedError(refused, "list", "watch"))
	} else {
		w.sink.Failed(refusedError(refused, "watch"))
	}
}

// refusedError names the verbs that the API server refuses.
func refusedError(err error, verbs ...string) error {
	quoted := `"` + strings.Join(verbs, `", "`) + `"`
	return fmt.Errorf(`not allowed to %s pods: grant the verbs %s on the resource "pods" in every namespace to the collector's account `+
		`(distribution/kubernetes/rbac.yaml does): %w`, strings.Join(verbs, " and "), quoted, err)
}

// failed reports a call that failed for another reason than missing rights. The
// sink logs each reason once, so its words are the same at every attempt, be that
// to list or to watch.
func (w *podWatch) failed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		return // the source is being shut down
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return // the reflector starts over with a new list: the ordinary way
	}
	if apierrors.IsUnauthorized(err) {
		err = fmt.Errorf("the API server does not accept the collector's credentials (auth_type): %w", err)
	}
	w.sink.Failed(fmt.Errorf("list or watch pods of %s: %w", w.server, lasting(err)))
}

// lasting takes from err what is another at every attempt: the request's URL, with
// the time that the reflector draws for a watch; the port of our own end; and how
// far a connection got before the other end broke it.
func lasting(err error) error {
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err
	}
	if conn := (*net.OpError)(nil); errors.As(err, &conn) && conn.Addr != nil {
		cause := conn.Err
		if errno := syscall.Errno(0); errors.As(cause, &errno) {
			cause = errno
		}
		err = fmt.Errorf("connection to %v: %w", conn.Addr, cause)
	}
	return err
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
