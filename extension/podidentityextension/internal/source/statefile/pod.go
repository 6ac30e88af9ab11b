// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// answer is what one file says.
type answer struct {
	// pods holds one element an entry; several may share an owner, one for each
	// interface of a container.
	pods []pod
	// broken names the entries that could not be read, and why, at most maxBroken
	// of them.
	broken []error
}

// maxBroken bounds the memory that a file of nothing but broken entries takes.
const maxBroken = 1000

// leaveOut notes that an entry could not be read.
func (a *answer) leaveOut(err error) {
	if len(a.broken) < maxBroken {
		a.broken = append(a.broken, err)
	}
}

// pod is one entry of a state file. A parser leaves Owner and NetNS to merge
// and to the source, which may touch the file system.
type pod struct {
	podidentity.Record
	// netns is the absolute path of the pod's network namespace, where the file
	// has one.
	netns string
	// written is when the file that holds the entry was last modified.
	written time.Time
}

// maxText bounds names and ids. Kubernetes allows 253 bytes for a name; ids are
// 64 hexadecimal digits or a GUID.
const maxText = 253

var errNoKey = errors.New("has neither an address nor an id to find it by")

// setIdentity sets the pod's name and namespace when both are there: one alone
// names no pod, and the record then joins by its sandbox id.
func (p *pod) setIdentity(name, namespace string) {
	if name != "" && namespace != "" {
		p.Identity.Name, p.Identity.Namespace = name, namespace
	}
}

// addAddress adds an address or the address of a CIDR. Empty ones and those
// that cannot tell pods apart (loopback, link-local) are left out.
func (p *pod) addAddress(s string) error {
	if s == "" {
		return nil
	}
	var addr netip.Addr
	prefix, err := netip.ParsePrefix(s)
	if err == nil {
		addr = prefix.Addr()
	} else if addr, err = netip.ParseAddr(s); err != nil {
		return fmt.Errorf("address %q is neither an IP address nor a CIDR", clip(s))
	}
	addr, ok := podidentity.NormalizeAddr(addr)
	if ok && !slices.Contains(p.Addresses, addr) {
		p.Addresses = append(p.Addresses, addr)
	}
	return nil
}

// addHNSEndpoint adds the id of an HNS endpoint, in lower case without braces.
func (p *pod) addHNSEndpoint(id string) {
	id = strings.ToLower(strings.Trim(id, "{}"))
	if id != "" && !slices.Contains(p.HNSEndpoints, id) {
		p.HNSEndpoints = append(p.HNSEndpoints, id)
	}
}

// setNetNS keeps a path below which a network namespace may be mounted. On
// Windows the same fields hold the namespace's GUID. A path in /proc names a
// process, not a namespace: once the process is gone another one may have its
// number, so the name would become a guess.
func (p *pod) setNetNS(path string) {
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/proc/") {
		p.netns = path
	}
}

// check refuses a record that nothing could resolve to and text that cannot be
// a name or an id.
func (p *pod) check() error {
	for _, f := range []struct{ field, text string }{
		{"pod name", p.Identity.Name},
		{"pod namespace", p.Identity.Namespace},
		{"pod UID", p.Identity.UID},
		{"container id", p.Sandbox},
	} {
		if err := checkText(f.text); err != nil {
			return fmt.Errorf("%s %w", f.field, err)
		}
	}
	for _, id := range p.HNSEndpoints {
		if err := checkText(id); err != nil {
			return fmt.Errorf("HNS endpoint id %w", err)
		}
	}
	if p.Sandbox == "" && p.Identity.UID == "" && len(p.Addresses) == 0 && len(p.HNSEndpoints) == 0 && p.netns == "" {
		return errNoKey
	}
	if p.owner() == "" {
		return errors.New("has neither a container id nor a pod name")
	}
	return nil
}

func checkText(s string) error {
	if len(s) > maxText {
		return fmt.Errorf("is %d bytes long, more than the %d allowed", len(s), maxText)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }) {
		return fmt.Errorf("%q holds a character that is not allowed", s)
	}
	return nil
}

// owner names the holder of the keys as podidentity.Record.Owner asks for it.
func (p *pod) owner() string {
	switch {
	case p.Sandbox != "":
		return p.Sandbox
	case p.Identity.UID != "":
		return p.Identity.UID
	case p.Identity.Name != "":
		return p.Identity.Namespace + "/" + p.Identity.Name
	}
	return ""
}

// merge makes one pod of all entries that share an owner, sorted by owner. An
// owner whose entries disagree on the pod is no identity: it is left out and
// reported.
func merge(entries []pod) (pods []pod, conflicts []error) {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b pod) int { return cmp.Compare(a.owner(), b.owner()) })
	for len(entries) > 0 {
		p := entries[0]
		p.Owner = p.owner()
		p.Addresses, p.HNSEndpoints = slices.Clone(p.Addresses), slices.Clone(p.HNSEndpoints)
		n := 1
		var conflict error
		for ; n < len(entries) && entries[n].owner() == p.Owner; n++ {
			conflict = errors.Join(conflict, p.join(&entries[n]))
		}
		entries = entries[n:]
		if conflict != nil {
			conflicts = append(conflicts, fmt.Errorf("container %q: %w", clip(p.Owner), conflict))
			continue
		}
		pods = append(pods, p)
	}
	return pods, conflicts
}

// join adds the keys of q, another entry of the same owner.
func (p *pod) join(q *pod) error {
	err := errors.Join(
		joinText("pod name", &p.Identity.Name, q.Identity.Name),
		joinText("pod namespace", &p.Identity.Namespace, q.Identity.Namespace),
		joinText("pod UID", &p.Identity.UID, q.Identity.UID),
	)
	for _, a := range q.Addresses {
		if !slices.Contains(p.Addresses, a) {
			p.Addresses = append(p.Addresses, a)
		}
	}
	for _, id := range q.HNSEndpoints {
		p.addHNSEndpoint(id)
	}
	if p.netns == "" {
		p.netns = q.netns
	}
	if p.Identity.Labels == nil {
		p.Identity.Labels = q.Identity.Labels
	}
	if p.Begin.IsZero() || !q.Begin.IsZero() && q.Begin.Before(p.Begin) {
		p.Begin = q.Begin
	}
	if q.written.Before(p.written) {
		p.written = q.written
	}
	return err
}

func joinText(field string, p *string, q string) error {
	if q == "" || *p == q {
		return nil
	}
	if *p != "" {
		return fmt.Errorf("its entries disagree on the %s: %q and %q", field, *p, q)
	}
	*p = q
	return nil
}

// clip shortens text from a file for an error message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// sorted iterates over a map in the order of its keys, so that the same content
// always makes the same records.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
