// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package peerbench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// startEnv returns an Env with n known pods.
func startEnv(tb testing.TB, namespace string, n int) Env {
	env := Env{Kubeconfig: startAPI(tb), Namespace: namespace, Pods: n}
	tb.Setenv("KUBECONFIG", env.Kubeconfig)
	return env
}

// podsPath is how the peer asks for one namespace's pods.
var podsPath = regexp.MustCompile(`^/api/v1/namespaces/([a-z]+\d+)/pods$`)

// nodeField is how podidentity asks for one node's; nodes are named like the
// namespaces that their pods are in.
var nodeField = regexp.MustCompile(`^spec\.nodeName=([a-z]+\d+)$`)

// askedNamespace returns the namespace a request is about, "" if it is about
// something that there isn't.
func askedNamespace(r *http.Request) string {
	if m := podsPath.FindStringSubmatch(r.URL.Path); m != nil {
		return m[1]
	}
	if m := nodeField.FindStringSubmatch(r.URL.Query().Get("fieldSelector")); m != nil && r.URL.Path == "/api/v1/pods" {
		return m[1]
	}
	return ""
}

// startAPI starts a FAKE of kube-apiserver for pods: LIST, WATCH and streaming
// LIST (sendInitialEvents), read-only. It makes pods up on the fly and keeps
// nothing of them, so that it does not count as heap. Namespace and node
// bench<n> have n pods; so have ignored<n>, whose pods have the peer's ignore
// annotation, and hostnet<n>, whose pods are in the host network and show the
// address of pod 0 as the node's. It returns the path of a kubeconfig.
func startAPI(tb testing.TB) string {
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := askedNamespace(r)
		n, err := strconv.Atoi(strings.TrimLeft(namespace, "abcdefghijklmnopqrstuvwxyz"))
		if err != nil {
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound)
			return
		}
		q := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		if watch, _ := strconv.ParseBool(q.Get("watch")); !watch {
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1000"},"items":[`)
			for i := range n {
				if i > 0 {
					fmt.Fprint(w, ",")
				}
				fmt.Fprint(w, podJSON(namespace, i))
			}
			fmt.Fprint(w, `]}`)
			return
		}
		if q.Get("sendInitialEvents") == "true" {
			for i := range n {
				fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", podJSON(namespace, i))
			}
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1000","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-done:
		}
	}))
	tb.Cleanup(func() { close(done); srv.CloseClientConnections(); srv.Close() })
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	kc := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: t, cluster: {server: %q}}]\nusers: [{name: t, user: {token: t}}]\ncontexts: [{name: t, context: {cluster: t, user: t}}]\ncurrent-context: t\n", srv.URL)
	if err := os.WriteFile(path, []byte(kc), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// podJSON is about what the real API server answers for a running pod.
func podJSON(ns string, i int) string {
	ip, annotations, host := podIP(i), "{}", "false"
	switch {
	case strings.HasPrefix(ns, "ignored"):
		annotations = `{"opentelemetry.io/k8s-processor/ignore":"true"}`
	case strings.HasPrefix(ns, "hostnet"):
		ip, host = podIP(0), "true"
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"00000000-0000-4000-9000-%012d","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"app-%d","pod-template-hash":"abc123"},"annotations":%s,"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{},"f:name":{}}}}}}]},"spec":{"containers":[{"name":"main","image":"example.test/app:1","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-%d","hostNetwork":%s,"securityContext":{},"schedulerName":"default-scheduler","enableServiceLinks":true},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":null}],"hostIP":"192.0.2.1","podIP":%q,"podIPs":[{"ip":%q},{"ip":"fd00::%x"}],"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{"name":"main","state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"example.test/app:1","imageID":"example.test/app@sha256:00","containerID":"containerd://%064x"}],"qosClass":"BestEffort"}}`,
		podName(i), ns, i, 100+i, i%50, annotations, i%20, host, ip, ip, i+1, i)
}
