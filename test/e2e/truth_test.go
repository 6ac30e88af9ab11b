// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-retina/otelcol-retina/test/cri"
)

// truth is what the test itself did: which pod lived when, in which network
// namespace. Inode numbers and addresses are used again, so only a time makes
// them a name.
type truth struct {
	mu    sync.Mutex
	lives []*life
}

// life is one pod's. The pod has its network at some time after pod.Asked and
// surely at pod.Running; it may lose it from stopping on and surely has at end.
type life struct {
	pod           *cri.Pod
	stopping, end time.Time // zero while it lives
}

func (tr *truth) began(p *cri.Pod) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lives = append(tr.lives, &life{pod: p})
}

func (tr *truth) stopping(p *cri.Pod) { tr.mark(p, func(l *life) { l.stopping = time.Now() }) }
func (tr *truth) ended(p *cri.Pod)    { tr.mark(p, func(l *life) { l.end = time.Now() }) }

func (tr *truth) mark(p *cri.Pod, f func(*life)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, l := range tr.lives {
		if l.pod.UID == p.UID {
			f(l)
		}
	}
}

// check says why a point's name is wrong, nil if it is right or has none.
func (tr *truth) check(p point) error {
	if p.pod == "" && p.namespace == "" && p.uid == "" {
		return nil
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	i := slices.IndexFunc(tr.lives, func(l *life) bool { return l.pod.UID == p.uid })
	if i < 0 {
		return fmt.Errorf("no pod has uid %q: %v", p.uid, p)
	}
	l := tr.lives[i]
	switch {
	case p.pod != l.pod.Name || p.namespace != l.pod.Namespace:
		return fmt.Errorf("uid %s is %s/%s's: %v", p.uid, l.pod.Namespace, l.pod.Name, p)
	case p.at.Before(l.pod.Asked):
		return fmt.Errorf("pod was asked for %v later: %v", l.pod.Asked.Sub(p.at), p)
	case !l.end.IsZero() && p.at.After(l.end):
		return fmt.Errorf("pod had ended %v before: %v", p.at.Sub(l.end), p)
	case p.netns != 0 && p.netns != l.pod.NetNS:
		return fmt.Errorf("pod's network namespace is %d: %v", l.pod.NetNS, p)
	case p.ip != "" && !slices.ContainsFunc(l.pod.Addresses, func(a netip.Addr) bool { return a.String() == p.ip }):
		return fmt.Errorf("pod's addresses are %v: %v", l.pod.Addresses, p)
	}
	return nil
}

// checkAll returns the first few wrong names among points.
func (tr *truth) checkAll(points []point) error {
	var wrong []string
	for _, p := range points {
		if err := tr.check(p); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d points carry a wrong name:\n%s", len(wrong), len(points), strings.Join(wrong[:min(len(wrong), 10)], "\n"))
}
