// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
)

// Whatever happens in whatever order, the service, the kernel and podidentity
// agree with a model that knows only who is attached where.
func TestAgainstModel(t *testing.T) {
	type attached struct {
		pod *nettest.Pod
		ips []string
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	n := newNode(t, "10.88.0.0/28", "fd00:88::/64") // 13 workloads
	n.cfg.CoolDown = 0
	n.start()
	before := nettest.NodeState(t)
	model := map[string]attached{}
	pick := func() string {
		ids := slices.Sorted(maps.Keys(model))
		if len(ids) == 0 {
			return "sandbox-none"
		}
		return ids[rnd.IntN(len(ids))]
	}
	for turn := range 200 {
		switch rnd.IntN(10) {
		case 0, 1, 2, 3: // attach
			pod, id := nettest.NewPod(t), fmt.Sprint("sandbox-", turn)
			answer, err := n.client.Attach(context.Background(), request(pod, id))
			if len(model) == 13 {
				require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
				continue
			}
			require.NoError(t, err)
			model[id] = attached{pod, ips(answer.Attachment)}
		case 4, 5: // detach, sometimes one that is not attached
			id := pick()
			n.detach(id)
			delete(model, id)
		case 6: // the namespace goes without a Detach
			id := pick()
			if a, ok := model[id]; ok {
				a.pod.Close()
				delete(model, id)
				eventually(t, func(c *assert.CollectT) { assert.Len(c, n.list(), len(model)) })
			}
		case 7: // attach fails half-way
			step := veth.Step(rnd.IntN(int(veth.StepMark) + 1))
			n.ext.service.network.Fault = func(s veth.Step) error {
				if s == step {
					return errors.New("injected")
				}
				return nil
			}
			_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-failing"))
			require.Error(t, err)
			n.ext.service.network.Fault = nil
		case 8: // the same again
			if id := pick(); id != "sandbox-none" {
				answer, err := n.client.Attach(context.Background(), request(model[id].pod, id))
				require.NoError(t, err)
				require.Equal(t, model[id].ips, ips(answer.Attachment))
			}
		case 9:
			n.stop()
			n.start()
		}

		list := n.list()
		require.Len(t, list, len(model), "turn %d", turn)
		seen := map[string]bool{}
		for _, a := range list {
			require.Equal(t, model[a.WorkloadId].ips, ips(a))
			for _, ip := range ips(a) {
				require.False(t, seen[ip], "%s is given twice", ip)
				seen[ip] = true
				require.Equal(t, "shop/pod-"+a.WorkloadId, n.resolve(ip))
			}
		}
		found, err := veth.Network{}.List()
		require.NoError(t, err)
		var marked []string
		for _, f := range found {
			if f.State == veth.Marked {
				marked = append(marked, f.WorkloadID)
			}
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(model)), marked, "turn %d", turn)
	}
	for id := range model {
		n.detach(id)
	}
	n.waitReaped()
	assert.Equal(t, before, nettest.NodeState(t))
}
