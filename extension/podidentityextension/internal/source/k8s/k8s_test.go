// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// startSource starts a source of cluster scope on a fake API server, with short
// backoffs.
func startSource(t *testing.T, api podsAPI, sink *recordingSink) *podSource {
	t.Helper()
	return startSourceWith(t, api, sink, wait.Backoff{Duration: 5 * time.Millisecond, Steps: 1})
}

func startSourceWith(t *testing.T, api podsAPI, sink *recordingSink, backoff wait.Backoff) *podSource {
	t.Helper()
	cfg := NewDefaultConfig()
	cfg.Scope = ScopeCluster
	s, err := New(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	ps := s.(*podSource)
	ps.backoff = backoff
	ps.run(api, "https://api.test", sink)
	t.Cleanup(func() {
		require.NoError(t, ps.Shutdown(context.Background()))
		require.NoError(t, ps.Shutdown(context.Background()), "twice")
	})
	return ps
}

// servers are the ways in which API servers answer the first list.
var servers = map[string]func(*fakeAPI){
	"streamed list": func(*fakeAPI) {},
	"plain list":    func(f *fakeAPI) { f.noStreaming = true },
}

func onEveryServer(t *testing.T, test func(*testing.T, *fakeAPI)) {
	for name, set := range servers {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI()
			set(api)
			test(t, api)
		})
	}
}

func TestFollowsTheAPIServer(t *testing.T) {
	onEveryServer(t, func(t *testing.T, api *fakeAPI) {
		api.put(running("a", "uid-a", "10.9.0.1"))
		api.put(with(running("done", "uid-done", "10.9.0.1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
		sink := newRecordingSink()
		startSource(t, api, sink)
		sink.await(t, "the first list", func() bool { return sink.lists == 1 && len(sink.live) == 1 })

		api.put(running("b", "uid-b", "10.9.0.2"))
		sink.await(t, "a new pod", func() bool { return len(sink.live) == 2 })
		api.put(running("b", "uid-b", "10.9.0.3"))
		sink.await(t, "its new address", func() bool { return sink.live["uid-b"].Addresses[0] == addrs("10.9.0.3")[0] })
		api.delete("a")
		sink.await(t, "a deletion", func() bool { return len(sink.live) == 1 })
		api.delete("b")
		api.put(running("b", "uid-b2", "10.9.0.3"))
		sink.await(t, "the name's next pod", func() bool { return len(sink.live) == 1 && sink.live["uid-b2"].Owner != "" })
		synced := 0
		sink.await(t, "nothing wrong", func() bool { synced = sink.synced; return len(sink.failed) == 0 })
		api.bookmark()
		sink.await(t, "a bookmark", func() bool { return sink.synced > synced })
	})
}

func TestKeepsOnlyWantedLabelsAndAnnotations(t *testing.T) {
	onEveryServer(t, func(t *testing.T, api *fakeAPI) {
		labelled := func(name string) {
			api.put(with(running(name, "uid-"+name, "10.9.0.1"), func(p *corev1.Pod) {
				p.Labels = map[string]string{"app": name, "tier": "x"}
				p.Annotations = map[string]string{"team": name, "other": "x"}
			}))
		}
		labelled("a")
		sink := newRecordingSink()
		sink.labels, sink.annotations = []string{"app"}, []string{"team"}
		startSource(t, api, sink)
		sink.await(t, "the first list", func() bool { return sink.lists == 1 })
		labelled("b")
		sink.await(t, "a new pod", func() bool { return len(sink.live) == 2 })
		for _, name := range []string{"a", "b"} {
			sink.await(t, "what was asked for, and no more", func() bool {
				id := sink.live["uid-"+name].Identity
				return assert.ObjectsAreEqual(map[string]string{"app": name}, id.Labels) &&
					assert.ObjectsAreEqual(map[string]string{"team": name}, id.Annotations)
			})
		}
	})
}

func TestWatchThatIsCutGoesOnWhereItWas(t *testing.T) {
	onEveryServer(t, func(t *testing.T, api *fakeAPI) {
		api.put(running("a", "uid-a", "10.9.0.1"))
		sink := newRecordingSink()
		startSource(t, api, sink)
		sink.await(t, "the first list", func() bool { return sink.lists == 1 })
		for i := range 5 {
			name := fmt.Sprint("b", i)
			api.put(running(name, name, "10.9.0.2"))
			sink.await(t, "a pod of a live watch", func() bool { return sink.live[name].Owner != "" })
			api.cutWatches(false)
		}
		api.delete("a")
		sink.await(t, "what came after the cuts", func() bool { return len(sink.live) == 5 })
		sink.await(t, "no second list, nothing failed", func() bool { return sink.lists == 1 && len(sink.failed) == 0 })
	})
}

func TestExpiredResourceVersionMeansANewList(t *testing.T) {
	onEveryServer(t, func(t *testing.T, api *fakeAPI) {
		api.put(running("a", "uid-a", "10.9.0.1"))
		api.put(running("b", "uid-b", "10.9.0.2"))
		api.put(running("c", "uid-c", "10.9.0.3"))
		sink := newRecordingSink()
		startSource(t, api, sink)
		sink.await(t, "the first list", func() bool { return sink.lists == 1 && len(sink.live) == 3 })
		api.set(func() {
			// While nobody watches, a is deleted and b is replaced by its like.
			delete(api.pods, "a")
			api.pods["b"] = running("b", "uid-b2", "10.9.0.1")
			api.cut++
			api.rv++
			api.oldest = api.rv
		})
		sink.await(t, "the truth", func() bool {
			return assert.ObjectsAreEqual([]string{"uid-b2", "uid-c"}, sink.owners())
		})
		sink.await(t, "one more list, nothing failed", func() bool { return sink.lists == 2 && len(sink.failed) == 0 })
	})
}

func TestRefusalNamesTheVerbOnceAndIsForgottenWhenGranted(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse []string
		want   string
	}{
		"list and watch": {[]string{"list", "watch"}, `not allowed to list and watch pods: grant the verbs "list", "watch" on the resource "pods"`},
		"watch":          {[]string{"watch"}, `not allowed to watch pods: grant the verbs "watch" on the resource "pods"`},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryServer(t, func(t *testing.T, api *fakeAPI) {
				for _, verb := range tt.refuse {
					api.refuse[verb] = true
				}
				api.put(running("a", "uid-a", "10.9.0.1"))
				sink := newRecordingSink()
				startSource(t, api, sink)
				sink.await(t, "the refusal", func() bool { return len(sink.failed) > 0 })
				assert.ErrorContains(t, sink.failed[0], tt.want)
				assert.ErrorContains(t, sink.failed[0], `User "collector" cannot watch`)
				assert.True(t, apierrors.IsForbidden(errors.Unwrap(sink.failed[0])))
				sink.await(t, "the next refusals, no pods", func() bool { return len(sink.failed) >= 3 && sink.lists == 0 })
				sink.await(t, "one reason, which the sink logs once", func() bool { return len(sink.reasons()) == 1 })

				api.set(func() { clear(api.refuse) })
				failed := 0
				sink.await(t, "the pods", func() bool { failed = len(sink.failed); return sink.lists == 1 && len(sink.live) == 1 })
				api.set(func() { api.refuse["watch"], api.refuse["list"] = true, true; api.cut++ })
				sink.await(t, "the next refusal", func() bool { return len(sink.failed) > failed && len(sink.live) == 1 })
			})
		})
	}
	t.Run("list, of a server that needs it", func(t *testing.T) {
		api := newFakeAPI()
		api.noStreaming = true
		api.refuse["list"] = true
		sink := newRecordingSink()
		startSource(t, api, sink)
		sink.await(t, "the refusals", func() bool { return len(sink.failed) >= 2 })
		sink.await(t, "one reason", func() bool { return len(sink.reasons()) == 1 })
		assert.ErrorContains(t, sink.failed[0], `not allowed to list pods: grant the verbs "list" on the resource "pods"`)
	})
}

func TestUnreachableServerIsReportedAndItsReturn(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"connection refused": {refused, "watch pods of https://api.test: dial tcp: connect: connection refused"},
		"unauthorized":       {apierrors.NewUnauthorized("Unauthorized"), "does not accept the collector's credentials"},
		"overload":           {apierrors.NewTooManyRequests("later", 1), "watch pods of https://api.test: later"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI()
			api.put(running("a", "uid-a", "10.9.0.1"))
			sink := newRecordingSink()
			startSource(t, api, sink)
			sink.await(t, "the first list", func() bool { return sink.lists == 1 })

			api.set(func() { api.err = tt.err; api.cut++ })
			sink.await(t, "the reports", func() bool { return len(sink.failed) >= 2 })
			sink.await(t, "one reason", func() bool { return len(sink.reasons()) == 1 })
			assert.ErrorContains(t, sink.failed[0], tt.want)
			api.put(running("b", "uid-b", "10.9.0.2"))
			synced := 0
			sink.await(t, "what was known stays", func() bool { synced = sink.synced; return len(sink.live) == 1 })
			api.set(func() { api.err = nil })
			sink.await(t, "the truth", func() bool { return len(sink.live) == 2 && sink.synced > synced })
		})
	}
}

// TestPermissionToWatchIsNoAnswer: where lists are not streamed, the source asks
// whether it may watch before it lists; it knows no pods yet then.
func TestPermissionToWatchIsNoAnswer(t *testing.T) {
	api := newFakeAPI()
	sink := newRecordingSink()
	w := &podWatch{api: api, server: "https://api.test", sink: sink}
	w.refused.Store(new(errors.New("as it was")))
	api.refuse["list"] = true
	_, err := w.list(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err))
	assert.Equal(t, 1, api.watches)
	assert.Zero(t, sink.synced)
	assert.Len(t, sink.failed, 1)
}

// answers is an HTTP transport that counts the requests.
type answers struct {
	answer            func(*http.Request) (*http.Response, error)
	requests, watches int
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	a.requests++
	if req.URL.Query().Has("watch") {
		a.watches++
	}
	return a.answer(req)
}

// TestEachAttemptWithoutAnAnswerIsReported: an outage of an hour is as many
// failures as there were attempts, and one reason for the log. The client is the
// source's own: client-go repeats some requests by itself.
func TestEachAttemptWithoutAnAnswerIsReported(t *testing.T) {
	port := 40000
	broken := func(cause error, ops ...string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			port++
			op := ops[port%len(ops)]
			return nil, &net.OpError{
				Op: op, Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443},
				Err: os.NewSyscallError(op, cause),
			}
		}
	}
	status := func(code int, reason metav1.StatusReason) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) {
			body := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": %q, "code": %d}`, reason, code)
			return &http.Response{
				StatusCode: code, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		}
	}
	every := func(a *answers) int { return a.requests }
	// They slow a loop of errors down, by the real time of the last test's.
	defer func(handlers []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = handlers }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	for name, tt := range map[string]struct {
		answer   func(*http.Request) (*http.Response, error)
		attempts func(*answers) int
		want     string
	}{
		"connection refused": {broken(syscall.ECONNREFUSED, "connect"), every, "list or watch pods of https://api.test: connection to 192.0.2.1:443: connection refused"},
		"connection reset":   {broken(syscall.ECONNRESET, "connect", "read", "write"), every, "list or watch pods of https://api.test: connection to 192.0.2.1:443: connection reset by peer"},
		"no answer in time":  {broken(syscall.ETIMEDOUT, "connect"), every, "list or watch pods of https://api.test: connection to 192.0.2.1:443: connection timed out"},
		"hung up":            {func(*http.Request) (*http.Response, error) { return nil, io.EOF }, every, "list or watch pods of https://api.test: EOF"},
		"unauthorized":       {status(401, metav1.StatusReasonUnauthorized), every, "does not accept the collector's credentials"},
		"broken server":      {status(500, metav1.StatusReasonInternalError), every, "list or watch pods of https://api.test: "},
		// Each refused watch is followed by the question whether a list is refused, too.
		"refused": {status(403, metav1.StatusReasonForbidden), func(a *answers) int { return a.watches }, "not allowed to list and watch pods"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &answers{answer: tt.answer}
				pods, _, err := newPodsClient(&rest.Config{Host: "https://api.test", Transport: server})
				require.NoError(t, err)
				sink := newRecordingSink()
				startSourceWith(t, pods, sink, backoff)
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Greater(t, len(sink.failed), 100)
				assert.Len(t, sink.failed, tt.attempts(server))
				require.Len(t, sink.reasons(), 1)
				assert.ErrorContains(t, sink.failed[0], tt.want)
			})
		})
	}
}

// TestReasonDoesNotNameTheRequest: what fails before a request is sent, such as
// a plugin for credentials, is told with the request's URL, which is another one
// each time.
func TestReasonDoesNotNameTheRequest(t *testing.T) {
	sink := newRecordingSink()
	w := &podWatch{server: "https://api.test", sink: sink}
	for seconds := range 3 {
		w.failed(t.Context(), &url.Error{
			Op: "Get", URL: fmt.Sprint("https://api.test/api/v1/pods?timeoutSeconds=", seconds, "&watch=true"),
			Err: errors.New("getting credentials: exec: executable not found"),
		})
	}
	assert.Len(t, sink.failed, 3)
	assert.Equal(t, []string{"list or watch pods of https://api.test: getting credentials: exec: executable not found"}, sink.reasons())
}

// TestConnectionThatBreaksIsReported runs the source's own client: client-go
// hides broken connections from the caller of a watch.
func TestConnectionThatBreaksIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetLinger(0) // a reset
			_ = c.Close()
		}
	})
	defer wg.Wait()
	defer l.Close()
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	s, err := New(&Config{AuthType: AuthNone, Scope: ScopeNode, Node: "node-1"}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	sink := newRecordingSink()
	require.NoError(t, s.Start(context.Background(), sink))
	sink.await(t, "the report", func() bool { return len(sink.failed) > 0 })
	assert.ErrorContains(t, sink.failed[0], "watch pods of https://"+l.Addr().String())
	require.NoError(t, s.Shutdown(context.Background()))
	for _, err := range sink.failed {
		assert.NotErrorIs(t, err, context.Canceled, "a shutdown is no failure")
	}
}

func TestShutdownDoesNotWaitForABackoff(t *testing.T) {
	api := newFakeAPI()
	api.err = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	sink := newRecordingSink()
	s := startSourceWith(t, api, sink, backoff)
	sink.await(t, "two attempts", func() bool { return len(sink.failed) == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx), "the second backoff alone takes 1 s")
	assert.Len(t, sink.failed, 2, "a shutdown is no failure")
}

func TestShutdownWithoutStart(t *testing.T) {
	s, err := New(NewDefaultConfig(), componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(context.Background()))
}

func TestStartFailsWhereNoRetryHelps(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	s, err := New(NewDefaultConfig(), componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.ErrorContains(t, s.Start(context.Background(), newRecordingSink()), "service account")
	require.NoError(t, s.Shutdown(context.Background()))
}

func TestSelector(t *testing.T) {
	assert.Equal(t, "spec.nodeName=node-1", selector(&Config{Scope: ScopeNode, Node: "node-1"}))
	assert.Empty(t, selector(&Config{Scope: ScopeCluster}))
}
