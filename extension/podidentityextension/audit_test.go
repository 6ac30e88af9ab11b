// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/cache"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
	"github.com/otelcol-retina/otelcol-retina/processor/podenrichprocessor"
)

// The audit compares the name of every point with the truth: a node's pods come
// and go, synthetic sources tell the real extension of it late, twice or not at
// all, and the real processor names points whose pods the test knows.

var auditEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// An audit is one node's life, made from a seed.
type audit struct {
	t     *testing.T
	seed  uint64
	rnd   *rand.Rand
	node  *auditNode
	feeds *auditFeeds
	clock atomic.Int64
	ext   *identityExtension
	proc  processor.Metrics
	tel   *componenttest.Telemetry
	tally *auditTally
	tests []auditPoint // of the batch that is made or looked at
}

type auditHost map[component.ID]component.Component

func (h auditHost) GetExtensions() map[component.ID]component.Component { return h }

// newAudit builds the extension, on the node's clock, and the processor.
func newAudit(t *testing.T, seed uint64, c conduct, tally *auditTally) *audit {
	rnd := rand.New(rand.NewPCG(seed, 4))
	a := &audit{t: t, seed: seed, rnd: rnd, node: newAuditNode(rnd, auditEpoch), tel: componenttest.NewTelemetry(), tally: tally}
	a.clock.Store(a.node.now)
	cfg := createDefaultConfig().(*Config)
	a.feeds = &auditFeeds{conduct: c, rnd: rnd, node: a.node, last: map[string]int64{}, claims: map[any][]*told{}}
	a.node.tell = func(l *tenancy, what happening) {
		a.clock.Store(a.node.now)
		a.feeds.happened(l, what)
		a.feeds.deliver() // what comes without delay
	}
	tally.beginNode()
	for s, name := range auditNames {
		src := &scripted{}
		a.feeds.sinks[s], a.feeds.owners[s] = src, map[string]*tenancy{}
		sourceTypes[name] = sourceType{
			newConfig: func() component.Config { return &struct{}{} },
			newSource: func(component.Config, component.TelemetrySettings) (source.Source, error) { return src, nil },
		}
		t.Cleanup(func() { delete(sourceTypes, name) })
		cfg.Sources[component.MustNewID(name)] = &struct{}{}
		cfg.Precedence = append(cfg.Precedence, name)
	}
	e, err := newExtension(cfg, extensiontest.NewNopSettings(metadata.Type).TelemetrySettings)
	require.NoError(t, err)
	e.cache = cache.New(len(e.names), cfg.GracePeriod, func() (int64, int64) {
		now := a.clock.Load()
		return now, now - auditEpoch.UnixNano()
	})
	a.ext = e

	factory := podenrichprocessor.NewFactory()
	procCfg := factory.CreateDefaultConfig().(*podenrichprocessor.Config)
	procCfg.Identity = component.NewID(metadata.Type)
	procCfg.Peers = []podenrichprocessor.PeerConfig{
		{Address: "source.address", Prefix: "source."}, {Address: "destination.address", Prefix: "destination."},
	}
	set := processortest.NewNopSettings(factory.Type())
	set.TelemetrySettings = a.tel.NewTelemetrySettings()
	next, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
		a.compare(md)
		return nil
	})
	require.NoError(t, err)
	a.proc, err = factory.CreateMetrics(t.Context(), set, procCfg, next)
	require.NoError(t, err)

	host := auditHost{procCfg.Identity: e}
	require.NoError(t, e.Start(t.Context(), host))
	require.NoError(t, a.proc.Start(t.Context(), host))
	require.NoError(t, e.Ready())
	t.Cleanup(func() {
		require.NoError(t, a.proc.Shutdown(context.Background()))
		require.NoError(t, e.Shutdown(context.Background()))
		require.NoError(t, a.tel.Shutdown(context.Background()))
	})
	return a
}

// run lets the node live until so many points have passed, some at each step.
func (a *audit) run(points, batch int) {
	for done := 0; done < points; {
		a.node.step()
		a.clock.Store(a.node.now)
		a.ext.cache.Expire(time.Second)
		a.feeds.deliver()
		md := a.batch(min(batch, points-done))
		done += len(a.tests)
		require.NoError(a.t, a.proc.ConsumeMetrics(a.t.Context(), md))
	}
	a.reconcile()
}

// batch makes points of recent tenancies, each with one of the keys' kinds.
func (a *audit) batch(n int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	a.tests = a.tests[:0]
	for range n {
		p := a.point()
		rm := md.ResourceMetrics().AppendEmpty()
		attrs := rm.Resource().Attributes()
		for k, v := range p.attrs {
			require.NoError(a.t, attrs.PutEmpty(k).FromRaw(v))
		}
		dp := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptySum().DataPoints().AppendEmpty()
		if !p.untimed {
			dp.SetTimestamp(pcommon.Timestamp(p.at))
		}
		for end, addr := range p.peers {
			if addr.IsValid() {
				dp.Attributes().PutStr(peerEnds[end]+"address", addr.String())
			}
		}
		a.tests = append(a.tests, p)
	}
	return md
}

var peerEnds = [2]string{"source.", "destination."}

// written is the name that the processor wrote.
type written struct{ name, namespace, uid string }

func readName(attrs pcommon.Map, prefix string) (w written) {
	for name, to := range map[string]*string{"k8s.pod.name": &w.name, "k8s.namespace.name": &w.namespace, "k8s.pod.uid": &w.uid} {
		if v, ok := attrs.Get(prefix + name); ok {
			*to = v.Str()
		}
	}
	return w
}

// compare looks at the names of a batch that went through the processor.
func (a *audit) compare(md pmetric.Metrics) {
	require.Equal(a.t, len(a.tests), md.ResourceMetrics().Len())
	for i, p := range a.tests {
		rm := md.ResourceMetrics().At(i)
		w := readName(rm.Resource().Attributes(), "")
		if p.kind == byUID && w.name == "" {
			w.uid = "" // the point's own
		}
		a.judge(p.kind, p.keys, p.at, p.truth, w)
		item := rm.ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints().At(0).Attributes()
		for end, addr := range p.peers {
			if addr.IsValid() {
				var truth *auditPod
				if l := a.node.holder(addr, p.at); l != nil {
					truth = l.pod
				}
				a.judge(asPeer, []any{addr}, p.at, truth, readName(item, peerEnds[end]))
			}
		}
	}
}

// judge compares one name with the truth, and stops the test at a wrong one.
func (a *audit) judge(kind pointKind, keys []any, at int64, truth *auditPod, w written) {
	if kind == byEndpoint && len(a.remembered(keys[0])) == 0 {
		kind = byUntold
	}
	settled := a.settled(keys, at, truth)
	if settled {
		a.tally.add(kind, settledPoint)
	}
	switch {
	case w == written{}:
		a.tally.add(kind, unnamed)
		if settled {
			a.tally.add(kind, settledUnnamed)
			a.fail("no name, though all sources agree", kind, keys, at, truth, w)
		}
	case truth != nil && truth.is(w) && w.namespace == "shop":
		a.tally.add(kind, named)
	default:
		v := a.excuse(keys, at, w)
		if v == wrong {
			a.fail("wrong name", kind, keys, at, truth, w)
		}
		a.tally.add(kind, v)
	}
}

// remembered is what the sources said of a key, less what ended too long ago for
// the cache to know.
func (a *audit) remembered(key any) (claims []*told) {
	for _, c := range a.feeds.claims[key] {
		if c.end > a.node.now-int64(a.ext.cfg.GracePeriod) {
			claims = append(claims, c)
		}
	}
	return claims
}

// settled says whether all sources agree about the point. One that tells of a key
// which no other pod can have, a UID or a sandbox, is enough. Of the others, each
// source that knows such a key must have said, and still say, that all of the
// point's were the true pod's at its time, and none that one was another's.
func (a *audit) settled(keys []any, at int64, truth *auditPod) bool {
	if truth == nil {
		return false
	}
	for _, key := range keys {
		var agree [numAuditSources]bool
		claims := a.remembered(key)
		early := len(claims) > 0
		for _, c := range claims {
			early = early && at < c.begin
			if !c.standsAt(at) {
				continue
			}
			if c.life.pod != truth {
				return false
			}
			agree[c.source] = true
		}
		if unique(key) {
			return early || agree != [numAuditSources]bool{}
		}
		for s := range numAuditSources {
			if s.tells(key) && !agree[s] {
				return false
			}
		}
	}
	return len(keys) > 0
}

// excuse says why no correct collector could have known that a name is wrong. Of
// the point's keys the strongest decides of which a source had told for the
// point's time or before, and a UID or a sandbox of which any had ever told. By all
// that had been told until now, it must have been the named pod's and no other's.
func (a *audit) excuse(keys []any, at int64, w written) verdict {
	for i, key := range keys {
		var standing []*tenancy
		ended := false
		for _, c := range a.remembered(key) {
			switch {
			case !c.standsAt(at):
				ended = ended || c.end <= at || c.life.died <= at
			case !c.life.pod.is(w), i > 0 && c.source.tells(keys[0]):
				return wrong // another's, or one's that is known to have another key instead
			default:
				standing = append(standing, c.life)
			}
		}
		switch {
		case standing != nil:
			if slices.ContainsFunc(a.remembered(key), func(c *told) bool { return c.end <= at && slices.Contains(standing, c.life) }) {
				return disputed
			}
			return unknowable
		case ended, unique(key) && len(a.remembered(key)) > 0:
			return wrong
		}
	}
	return wrong
}

// fail prints what happened and was said about the named pod and the holders of
// the point's keys, and what the cache made of it.
func (a *audit) fail(what string, kind pointKind, keys []any, at int64, truth *auditPod, w written) {
	about := []string{w.name + " ", w.uid + " "}
	for _, key := range keys {
		for _, c := range a.feeds.claims[key] {
			if c.end > at-int64(5*time.Second) {
				about = append(about, c.life.sandbox+" ", c.life.pod.uid+" ")
			}
		}
	}
	for _, line := range a.feeds.log {
		if slices.ContainsFunc(about, func(s string) bool { return s != " " && strings.Contains(line, s) }) || strings.Contains(line, "lists") {
			a.t.Log(line)
		}
	}
	for _, key := range keys {
		a.t.Logf("key %v:", key)
		if addr, ok := key.(netip.Addr); ok {
			for _, l := range a.node.history[addr] {
				a.t.Logf("  true    %.4fs to %.4fs: %v", seconds(l.begin), seconds(l.end), l)
			}
		}
		for _, c := range a.feeds.claims[key] {
			a.t.Logf("  told by %s %.4fs to %.4fs: %v", auditNames[c.source], seconds(c.begin), seconds(c.end), c.life)
		}
		q := podidentity.Query{}
		switch k := key.(type) {
		case netip.Addr:
			q.Address = k
		case uint64:
			q.NetNS = k
		case podUID:
			q.UID = string(k)
		case sandboxID:
			q.Sandbox = string(k)
		}
		for _, l := range a.ext.cache.Leases(q) {
			a.t.Logf("  lease of %s %s %.4fs to %.4fs: %s %s", auditNames[l.Source], l.Owner, seconds(l.Begin.UnixNano()), seconds(l.End.UnixNano()), l.Identity.Name, l.Identity.UID)
		}
	}
	a.t.Fatalf("%s: seed %d, sources %s: a point by %s of %.4fs, seen at %.4fs, is named %+v and is of %+v",
		what, a.seed, a.feeds.name, kind, seconds(at), seconds(a.node.now), w, truth)
}

// reconcile compares the processor's own counts with what the test saw: every
// point without a name has its reason there.
func (a *audit) reconcile() {
	have := a.counts("otelcol_processor_podenrich_resources")
	peers := a.counts("otelcol_processor_podenrich_peers")
	var seen, peersSeen [numVerdicts]int64
	for k := range numKinds {
		for v := range numVerdicts {
			if k == asPeer {
				peersSeen[v] += a.tally.node[k][v]
			} else {
				seen[v] += a.tally.node[k][v]
			}
		}
	}
	for _, c := range []struct {
		reasons map[string]int64
		seen    [numVerdicts]int64
	}{{have, seen}, {peers, peersSeen}} {
		var without int64
		for reason, n := range c.reasons {
			if reason != "found" {
				a.tally.reasons[reason] += n
				without += n
			}
		}
		require.Equal(a.t, c.seen[named]+c.seen[unknowable]+c.seen[disputed], c.reasons["found"], "names written and names counted")
		require.Equal(a.t, c.seen[unnamed], without, "points without a name and their reasons: %v", c.reasons)
	}
	a.tally.endNode()
}

func (a *audit) counts(name string) map[string]int64 {
	m, err := a.tel.GetMetric(name)
	require.NoError(a.t, err)
	counts := map[string]int64{}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		o, ok := p.Attributes.Value("outcome")
		require.True(a.t, ok, name)
		counts[o.AsString()] += p.Value
	}
	return counts
}

// raceEnabled says that the race detector makes everything slow.
var raceEnabled bool

// TestAudit is the churn audit: 1,000,000 points, no name that is wrong by what the
// extension was told, and a counted reason for every point without one. `make audit` runs all of it, the race
// detector's run a part.
func TestAudit(t *testing.T) {
	points, nodes := 1_000_000, 20
	if testing.Short() || raceEnabled {
		points, nodes = 60_000, 4
	}
	began := time.Now()
	var seen int64
	for i, c := range conducts {
		t.Run(c.name, func(t *testing.T) {
			tally := newAuditTally()
			for seed := range uint64(nodes / len(conducts)) {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					newAudit(t, seed*uint64(len(conducts))+uint64(i), c, tally).run(points/nodes, 32)
				})
			}
			tally.print(t)
			tally.check(t, c)
			seen += tally.points()
		})
	}
	require.GreaterOrEqual(t, seen, int64(points))
	t.Logf("%d points and the peers on a third of them, 0 names against what had been told, in %.1f s", seen, time.Since(began).Seconds())
}

// FuzzAudit is the same with the seed, the sources and the length from the
// fuzzer, and with longer lives for fewer points.
func FuzzAudit(f *testing.F) {
	for i := range conducts {
		f.Add(uint64(i), uint8(i), uint16(2000))
	}
	f.Fuzz(func(t *testing.T, seed uint64, sources uint8, points uint16) {
		newAudit(t, seed, conducts[int(sources)%len(conducts)], newAuditTally()).run(1+int(points)%4000, 4)
	})
}
