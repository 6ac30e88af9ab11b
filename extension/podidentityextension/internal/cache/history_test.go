// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// A history drives a cache and the model through the same random life of a node.
type history struct {
	t     *testing.T
	rnd   *rand.Rand
	n     *node
	m     *model
	pods  []*life
	names int // how many different names pods have, 0 for a new one each
	log   []string
}

func (h *history) say(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%6.1fs ", h.n.clock.now().Sub(testEpoch).Seconds())+fmt.Sprintf(format, args...))
}

// born makes a pod with few addresses and namespaces to choose from, so that
// they are reused, often at once.
func (h *history) born() *life {
	i := len(h.pods)
	p := &life{
		uid: fmt.Sprintf("u%d", i), sandbox: fmt.Sprintf("s%d", i), name: fmt.Sprintf("pod-%d", i),
		netns: 100 + h.rnd.Uint64N(6),
	}
	if h.names > 0 {
		p.name = fmt.Sprintf("pod-%d", h.rnd.IntN(h.names))
	}
	for range 1 + h.rnd.IntN(2) {
		a := randomAddr(h.rnd)
		if !slices.Contains(p.addrs, a) {
			p.addrs = append(p.addrs, a)
		}
	}
	h.pods = append(h.pods, p)
	return p
}

func randomAddr(rnd *rand.Rand) netip.Addr {
	if rnd.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, 0, 0, byte(rnd.IntN(5))})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(rnd.IntN(5))})
}

// recent returns one of the last few pods.
func (h *history) recent() *life {
	if len(h.pods) == 0 {
		return h.born()
	}
	last := min(len(h.pods), 6)
	return h.pods[len(h.pods)-1-h.rnd.IntN(last)]
}

// record is what a source says now, with a begin in the past or without.
func (h *history) record(source int, p *life) podidentity.Record {
	r := p.tells(source)
	if h.rnd.IntN(2) == 0 {
		r.Begin = h.n.clock.now().Add(-time.Duration(h.rnd.IntN(3000)) * time.Millisecond)
	}
	if h.rnd.IntN(5) == 0 && len(r.Addresses) > 1 {
		r.Addresses = r.Addresses[:1] // not all of them are known yet
	}
	return r
}

func brief(r podidentity.Record) string {
	begin := "-"
	if !r.Begin.IsZero() {
		begin = r.Begin.Sub(testEpoch).String()
	}
	return fmt.Sprintf("%s %s sandbox=%s netns=%d %v since %s", r.Identity.Name, r.Identity.UID, r.Sandbox, r.NetNS, r.Addresses, begin)
}

func (h *history) step() {
	source := []int{cri, k8s, file}[h.rnd.IntN(3)]
	now := h.n.clock.now()
	switch h.rnd.IntN(10) {
	case 0, 1:
		h.born()
		fallthrough
	case 2, 3:
		p := h.recent()
		r := h.record(source, p)
		h.say("put %d %s", source, brief(r))
		h.n.Put(source, r, false)
		h.m.put(source, p, r, now.UnixNano())
	case 4, 5:
		owner := h.recent().tells(source).Owner
		when := now.Add(-time.Duration(h.rnd.IntN(2)*h.rnd.IntN(2000)) * time.Millisecond)
		terminal := source == cri && h.rnd.IntN(2) == 0
		h.say("end %d %s at %v terminal %v", source, owner, when.Sub(testEpoch), terminal)
		h.n.End(source, owner, when, terminal)
		h.m.endOwner(source, owner, when.UnixNano(), terminal)
	case 6:
		var records []podidentity.Record
		var pods []*life
		for _, p := range h.pods[max(0, len(h.pods)-6):] {
			if h.rnd.IntN(2) == 0 {
				records, pods = append(records, h.record(source, p)), append(pods, p)
			}
		}
		h.say("replace %d:", source)
		for _, r := range records {
			h.say("  %s", brief(r))
		}
		h.n.Replace(source, records, now)
		for owner := range h.m.lists[source] {
			if !slices.ContainsFunc(records, func(r podidentity.Record) bool { return r.Owner == owner }) {
				h.m.lose(source, owner, now.UnixNano())
			}
		}
		for i, r := range records {
			h.m.put(source, pods[i], r, now.UnixNano())
		}
	default:
		h.n.clock.pass(time.Duration(h.rnd.IntN(8000)) * time.Millisecond)
		h.n.Expire(time.Second)
		h.m.expire()
	}
}

func (h *history) check() {
	var q podidentity.Query
	var key any
	switch p := h.recent(); h.rnd.IntN(4) {
	case 0:
		q.UID, key = p.uid, p.uid
	case 1:
		q.Sandbox, key = p.sandbox, p.sandbox
	case 2:
		q.NetNS, key = p.netns, p.netns
	case 3:
		q.Address = randomAddr(h.rnd)
		key = q.Address
	}
	t := present
	if h.rnd.IntN(3) > 0 {
		q.At = h.n.clock.now().Add(-time.Duration(h.rnd.IntN(20000)) * time.Millisecond)
		t = q.At.UnixNano()
	}
	id, outcome := h.n.Resolve(q)
	holders, want := h.m.ask(key, t)
	ok := outcome == want && (id == nil) == (want != podidentity.Found)
	if id != nil {
		ok = ok && slices.ContainsFunc(holders, func(p *life) bool {
			return p.name == id.Name && (id.UID == "" || id.UID == p.uid)
		})
	}
	if h.names > 0 {
		// Of namesakes the cache cannot know all that the model does. It must not
		// name anybody who never had the key.
		ok = id == nil || slices.ContainsFunc(h.pods, func(p *life) bool {
			all := p.tells(cri)
			return p.name == id.Name && slices.Contains(keysOf(&all), key)
		})
	}
	if !ok {
		h.say("ask %v at %v: have %v %+v, want %v", key, q.At.Sub(testEpoch), outcome, id, want)
		for _, p := range holders {
			h.say("  of %+v", *p)
		}
		for _, line := range h.log[max(0, len(h.log)-100):] {
			h.t.Log(line)
		}
		h.t.FailNow()
	}
}

func (h *history) run(steps int) {
	for range steps {
		h.step()
		for range 4 {
			h.check()
		}
	}
}

// TestCacheAgreesWithModel runs random lives of a node through the cache and the
// model.
func TestCacheAgreesWithModel(t *testing.T) {
	for _, names := range []int{0, 2} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprintf("names=%d/seed=%d", names, seed), func(t *testing.T) {
				n := newNode(t)
				h := &history{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(names))), n: n, m: newModel(n.clock), names: names}
				h.run(400)
			})
		}
	}
}

// FuzzCache is the same with the seed and the length from the fuzzer.
func FuzzCache(f *testing.F) {
	f.Add(uint64(1), uint16(50), false)
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16, namesakes bool) {
		n := newNode(t)
		h := &history{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), n: n, m: newModel(n.clock)}
		if namesakes {
			h.names = 2
		}
		h.run(int(steps) % 1000)
	})
}
