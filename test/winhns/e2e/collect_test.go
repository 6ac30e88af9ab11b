// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/test/winhns/simhns"
)

// node is the simulated node: n endpoints with their pods, which one of three
// sources names.
type node struct {
	simhns.Dir
	n        int
	textOnly bool
}

// put writes everything; round changes every counter.
func (n node) put(round int) (want page) {
	var (
		sandboxes []simhns.Sandbox
		azure     []simhns.AzureEndpoint
	)
	want = page{}
	for i := range n.n {
		e, pod := simhns.Numbered(i), simhns.NumberedSandbox(i)
		s, v := simhns.NumberedStats(i+1000*round), simhns.NumberedVFP(i+1000*round)
		n.PutEndpoint(e)
		n.PutStats(e.ID, s)
		n.PutVFP(e.Port, v, n.textOnly)
		switch i % 3 {
		case 0: // the container runtime names it
			sandboxes = append(sandboxes, pod)
		case 1: // the state file names it, and the runtime doesn't know it
			pod.UID = "" // which the file has not
			azure = append(azure, simhns.AzureEndpoint{Sandbox: pod, HNS: e.ID})
		case 2: // the file has the endpoint, and the runtime the name: joined by container
			anonymous := simhns.Sandbox{ID: pod.ID}
			azure = append(azure, simhns.AzureEndpoint{Sandbox: anonymous, HNS: e.ID})
			named := pod
			named.Addresses = nil
			sandboxes = append(sandboxes, named)
		}
		maps.Copy(want, expected(e, pod, s, v))
	}
	n.PutSandboxes(sandboxes...)
	n.PutAzureVNet(azure...)
	return want
}

// Every value on the Prometheus page is that of the file it came from, with the
// pod's name and namespace, and changes with the file.
func TestEveryValueIsOnThePage(t *testing.T) {
	for _, textOnly := range []bool{false, true} {
		for _, n := range []int{3, 50, 250} {
			form := "JSON"
			if textOnly {
				form = "text"
			}
			t.Run(fmt.Sprintf("%d endpoints, vfpctrl with %s", n, form), func(t *testing.T) {
				bed := node{simhns.New(t), n, textOnly}
				want := bed.put(0)
				startRuntime(t, bed.Dir)
				// Long enough for Wine to run a good part of the vfpctrl.exe.
				interval := 2 * time.Second
				if n > 3 {
					interval = 10 * time.Second
				}
				c := startCollector(t, bed.Dir, interval)
				requirePage(t, c.page, want)
				requirePage(t, c.page, bed.put(1))
				c.end(t)
				require.NotContains(t, c.output(t), "panic")
				require.Contains(t, c.output(t), "Shutdown complete")
			})
		}
	}
}
