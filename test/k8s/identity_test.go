// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// patience is for what comes after a backoff, which client-go lets grow to a
// minute.
const patience = 3 * time.Minute

// identity is the extension, started as the collector starts it.
type identity struct {
	podidentity.Resolver
	logs *observer.ObservedLogs
}

// settings are the extension's, by default of a source in cluster scope.
type settings map[string]any

// startIdentity starts the extension with a k8s source that uses a kubeconfig.
// wants are the labels that a processor asks for. It remembers the dead for longer
// than a test takes.
func startIdentity(t testing.TB, kubeconfig string, k8s settings, wants ...string) *identity {
	t.Helper()
	return startIdentityWithGrace(t, kubeconfig, "1h", k8s, wants...)
}

func startIdentityWithGrace(t testing.TB, kubeconfig, grace string, k8s settings, wants ...string) *identity {
	t.Helper()
	t.Setenv("KUBECONFIG", kubeconfig)
	source := map[string]any{"auth_type": "kubeConfig", "scope": "cluster"}
	for k, v := range k8s {
		source[k] = v
	}
	factory := podidentityextension.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"grace_period": grace,
		"sources":      map[string]any{"k8s": source},
	}).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))

	core, logs := observer.New(zapcore.InfoLevel)
	set := extensiontest.NewNopSettings(factory.Type())
	set.Logger = zap.New(core)
	ext, err := factory.Create(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, ext.Start(t.Context(), host{}))
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range logs.All() {
				t.Log(e.Time.Format(time.TimeOnly), e.Message, e.ContextMap())
			}
		}
		require.NoError(t, ext.Shutdown(context.Background()))
	})
	i := &identity{Resolver: ext.(podidentity.Resolver), logs: logs}
	i.Want(wants, nil)
	require.NoError(t, ext.(extensioncapabilities.PipelineWatcher).Ready())
	return i
}

// host is a collector without other extensions.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

// awaitSynced waits for the source's first list.
func (i *identity) awaitSynced(t testing.TB) {
	t.Helper()
	select {
	case <-i.Synced():
	case <-time.After(patience):
		require.FailNow(t, "the source did not sync", "%v", i.logs.All())
	}
}

// uid returns the UID of the pod that holds addr now, or how the look-up ended.
func (i *identity) uid(addr string) string {
	return describe(i.Resolve(podidentity.Query{Address: netip.MustParseAddr(addr)}))
}

func describe(id *podidentity.Identity, o podidentity.Outcome) string {
	if o != podidentity.Found {
		return o.String()
	}
	return id.UID
}

// warnings returns the warnings and errors so far.
func (i *identity) warnings() []string {
	var all []string
	for _, e := range i.logs.FilterLevelExact(zapcore.WarnLevel).All() {
		all = append(all, fmt.Sprint(e.Message, " ", e.ContextMap()))
	}
	for _, e := range i.logs.FilterLevelExact(zapcore.ErrorLevel).All() {
		all = append(all, fmt.Sprint(e.Message, " ", e.ContextMap()))
	}
	return all
}

// await waits until cond holds; there is no event of the extension's to wait for.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	awaitNone(t, func() string {
		if cond() {
			return ""
		}
		return "not seen: " + what
	})
}

// awaitNone waits until there is no difference any more.
func awaitNone(t testing.TB, difference func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		d := difference()
		if d == "" {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(t, d)
		}
	}
}

// truth is who holds each address by the API server's own word, and every UID
// that lives.
type truth struct {
	holder map[string]string // of address
	live   map[string]bool   // UIDs
}

// theTruth lists the pods. A pod that has terminated holds nothing, nor does one
// on the host's network.
func theTruth(t testing.TB, client kubernetes.Interface) truth {
	t.Helper()
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	tr := truth{map[string]string{}, map[string]bool{}}
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		tr.live[string(p.UID)] = true
		if p.Spec.HostNetwork {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if other := tr.holder[ip.IP]; other != "" {
				require.FailNow(t, "two live pods with one address", "%s: %s and %s", ip.IP, other, p.UID)
			}
			tr.holder[ip.IP] = string(p.UID)
		}
	}
	return tr
}

// differs says how the extension's answers differ from the truth: for every
// address that was ever used and every UID there ever was.
func (i *identity) differs(tr truth, addrs, uids []string) string {
	for _, a := range addrs {
		got, want := i.uid(a), tr.holder[a]
		if got != want && (want != "" || got != "unknown" && got != "ended") {
			return fmt.Sprintf("%s belongs to %q, the extension says %q", a, want, got)
		}
	}
	for _, u := range uids {
		got := describe(i.Resolve(podidentity.Query{UID: u}))
		if tr.live[u] != (got == u) {
			return fmt.Sprintf("pod %s: lives %v, the extension says %q", u, tr.live[u], got)
		}
	}
	return ""
}
