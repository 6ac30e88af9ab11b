// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configoptional"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/ipam"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/internal/kubeapi"
)

// apiServer answers for one node, in the API server's place: test/k8s has the
// real one. What it answers can be changed at any time.
type apiServer struct {
	*httptest.Server
	podCIDRs atomic.Value // a JSON array, "none" if there is no node, or "" for an error
}

// useK8s has n take its prefixes from an API server.
func useK8s(t *testing.T, n *node) *apiServer {
	s := &apiServer{}
	s.podCIDRs.Store("[]")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cidrs := s.podCIDRs.Load().(string)
		switch cidrs {
		case "":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case "none":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"nodes \"node-1\" not found","details":{"name":"node-1","kind":"nodes"}}`)
			return
		}
		fmt.Fprintf(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"node-1"},"spec":{"podCIDRs":%s}}`, cidrs)
	}))
	t.Cleanup(s.Close)
	kubeconfig := filepath.Join(n.dir, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil,
		`{"kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, s.URL), 0o600))
	t.Setenv("KUBECONFIG", kubeconfig)
	n.cfg.Prefixes = nil
	n.cfg.K8s = configoptional.Some(K8sConfig{AuthType: kubeapi.AuthKubeConfig, Node: "node-1"})
	return s
}

func (n *node) awaitStatus() *pb.StatusResponse {
	n.tb.Helper()
	var answer *pb.StatusResponse
	eventually(n.tb, func(c *assert.CollectT) {
		var err error
		answer, err = n.client.Status(context.Background(), &pb.StatusRequest{})
		assert.NoError(c, err)
	})
	return answer
}

func TestPodCIDRs(t *testing.T) {
	n := newNode(t)
	api := useK8s(t, n)
	n.start()
	pod := nettest.NewPod(t)
	eventually(t, func(c *assert.CollectT) {
		_, err := n.client.Status(context.Background(), &pb.StatusRequest{})
		assert.Equal(c, codes.Unavailable, status.Code(err))
		assert.ErrorContains(c, err, `no prefix is known yet: node "node-1": it has no podCIDR yet`)
	})
	_, err := n.client.Attach(context.Background(), request(pod, "sandbox-1"))
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "no prefix is known yet")
	assert.Empty(t, n.list())
	assert.Equal(t, componentstatus.StatusRecoverableError, (<-n.host.events).Status())

	api.podCIDRs.Store(`["10.244.1.0/24","fd00:10:244:1::/64"]`)
	assert.Equal(t, []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, n.awaitStatus().Prefixes)
	assert.Equal(t, []string{"10.244.1.2", "fd00:10:244:1::2"}, ips(n.attach(pod, "sandbox-1")))
	assert.Equal(t, componentstatus.StatusOK, (<-n.host.events).Status())
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("No workload can be attached until").Len(), "it is logged once")

	// The next start does not wait for the API server, and is not late.
	n.stop()
	api.podCIDRs.Store("")
	n.start()
	answer, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, answer.Prefixes)
	assert.Equal(t, []string{"10.244.1.3", "fd00:10:244:1::3"}, ips(n.attach(nettest.NewPod(t), "sandbox-2")))
	assert.Zero(t, n.logs.FilterMessageSnippet("No workload can be attached until").Len())
}

// No address is given from prefixes that the node has not any more, whenever it
// turns out; what is attached stays, and stays known.
func TestPodCIDRsChange(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprint("while the collector runs: ", running), func(t *testing.T) {
			n := newNode(t)
			n.recheck = time.Millisecond
			api := useK8s(t, n)
			api.podCIDRs.Store(`["10.244.1.0/24"]`)
			n.start()
			n.awaitStatus()
			n.attach(nettest.NewPod(t), "sandbox-1")
			if !running {
				n.stop()
			}
			api.podCIDRs.Store(`["10.244.2.0/24"]`)
			if !running {
				n.start()
			}
			eventually(t, func(c *assert.CollectT) {
				assert.Equal(c, []string{"10.244.2.0/24"}, n.awaitStatus().Prefixes)
			})
			assert.Equal(t, []string{"10.244.2.2"}, ips(n.attach(nettest.NewPod(t), "sandbox-2")))
			assert.Equal(t, "shop/pod-sandbox-1", n.resolve("10.244.1.2"))
			assert.Equal(t, 1, n.logs.FilterMessageSnippet("podCIDRs have changed").Len())

			// Back again: the address in use is not given to another.
			api.podCIDRs.Store(`["10.244.1.0/24"]`)
			eventually(t, func(c *assert.CollectT) {
				assert.Equal(c, []string{"10.244.1.0/24"}, n.awaitStatus().Prefixes)
			})
			assert.Equal(t, []string{"10.244.1.3"}, ips(n.attach(nettest.NewPod(t), "sandbox-3")))
			n.detach("sandbox-1")
			answer := n.awaitStatus()
			assert.Equal(t, uint32(1), answer.Cooling)
			assert.Equal(t, uint32(251), answer.Free)

			// The next start knows.
			n.stop()
			api.podCIDRs.Store("")
			n.start()
			assert.Equal(t, []string{"10.244.1.0/24"}, n.awaitStatus().Prefixes)
		})
	}
}

func TestPodCIDRsAreLost(t *testing.T) {
	for answer, why := range map[string]string{"[]": "it has no podCIDR yet", "none": "there is no such node"} {
		t.Run(why, func(t *testing.T) {
			n := newNode(t)
			n.recheck = time.Millisecond
			api := useK8s(t, n)
			api.podCIDRs.Store(`["10.244.1.0/24"]`)
			n.start()
			n.awaitStatus()
			api.podCIDRs.Store(answer)
			unavailable := func() {
				eventually(t, func(c *assert.CollectT) {
					_, err := n.client.Status(context.Background(), &pb.StatusRequest{})
					assert.Equal(c, codes.Unavailable, status.Code(err))
					assert.ErrorContains(c, err, why)
				})
			}
			unavailable()
			assert.Equal(t, 1, n.logs.FilterMessageSnippet("The node has lost its podCIDRs").Len())
			assert.ErrorContains(t, (<-n.host.events).Err(), why)

			n.stop() // and they are not kept
			n.start()
			unavailable()
			api.podCIDRs.Store(`["10.244.1.0/24"]`)
			n.awaitStatus()
		})
	}
}

// Kept prefixes that cannot be verified are used, which is said.
func TestPodCIDRsCannotBeVerified(t *testing.T) {
	n := newNode(t)
	api := useK8s(t, n)
	api.podCIDRs.Store(`["10.244.1.0/24"]`)
	n.start()
	n.awaitStatus()
	n.stop()
	api.podCIDRs.Store("")
	n.start()
	assert.Equal(t, []string{"10.244.1.0/24"}, n.awaitStatus().Prefixes)
	eventually(t, func(c *assert.CollectT) {
		assert.Equal(c, 1, n.logs.FilterMessageSnippet("Cannot find out whether the node's podCIDRs have changed").Len())
	})
	assert.Equal(t, componentstatus.StatusRecoverableError, (<-n.host.events).Status())
	api.podCIDRs.Store(`["10.244.1.0/24"]`)
	eventually(t, func(c *assert.CollectT) { assert.Len(c, n.host.events, 1) })
	assert.Equal(t, componentstatus.StatusOK, (<-n.host.events).Status())
}

// A disk that was another node's has that node's prefixes.
func TestPodCIDRsOfAnotherNode(t *testing.T) {
	n := newNode(t)
	api := useK8s(t, n)
	api.podCIDRs.Store(`["10.244.1.0/24"]`)
	n.start()
	n.awaitStatus()
	n.stop()
	n.cfg.K8s.Get().Node = "node-2"
	api.podCIDRs.Store("")
	n.start()
	_, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

func TestPodCIDRsThatCannotBeUsed(t *testing.T) {
	n := newNode(t)
	api := useK8s(t, n)
	api.podCIDRs.Store(`["10.244.1.0/31"]`)
	n.start()
	e := <-n.host.events
	assert.Equal(t, componentstatus.StatusRecoverableError, e.Status())
	_, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "no prefix is known yet: prefix 10.244.1.0/31 has no usable address")
}

// What was attached before the prefixes are known is known, and can be detached.
func TestRestartBeforePodCIDRsAreKnown(t *testing.T) {
	n := newNode(t, "10.88.0.0/29").start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	n.attach(nettest.NewPod(t), "sandbox-2")
	n.stop()
	api := useK8s(t, n)
	n.start()
	assert.Len(t, n.list(), 2)
	assert.Equal(t, "shop/pod-sandbox-1", n.resolve("10.88.0.2"))
	n.detach("sandbox-1")
	api.podCIDRs.Store(`["10.88.0.0/29"]`)
	answer := n.awaitStatus()
	assert.Equal(t, uint32(1), answer.Attachments)
	assert.Equal(t, uint32(1), answer.Cooling)
	assert.Equal(t, uint32(3), answer.Free)
}

func TestAddressesBeforeTheyAreKnown(t *testing.T) {
	a := &addresses{coolDown: time.Minute}
	addr := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	now := time.Now()
	a.Claim(addr("10.0.0.2"))
	a.Claim(addr("10.0.0.3"))
	a.Release(addr("10.0.0.2"), now)
	_, _, err := a.Known()
	assert.ErrorIs(t, err, errNoPrefix)
	assert.Error(t, a.Use(nil))
	require.NoError(t, a.Use([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")}))
	pool, _, err := a.Known()
	require.NoError(t, err)
	counts := pool.Counts(now)
	assert.Equal(t, 1, counts.Used)
	assert.Equal(t, 1, counts.Cooling)
	a.Release(addr("10.0.0.3"), now)
	a.Claim(addr("10.0.0.4"))
	assert.Equal(t, 2, pool.Counts(now).Cooling)
	assert.Equal(t, 1, pool.Counts(now).Used)
}

// What is in use, or cooling down, is so whatever prefixes come between.
func TestAddressesOfOtherPrefixes(t *testing.T) {
	a := &addresses{coolDown: time.Minute}
	use := func(prefix string) { require.NoError(t, a.Use([]netip.Prefix{netip.MustParsePrefix(prefix)})) }
	counts := func() ipam.Counts {
		pool, _, err := a.Known()
		require.NoError(t, err)
		return pool.Counts(time.Now())
	}
	now := time.Now()
	use("10.0.0.0/29")
	var given [][]netip.Addr
	for range 4 {
		addrs, err := a.Allocate(now)
		require.NoError(t, err)
		given = append(given, addrs)
	}
	a.Release(given[0], now)
	use("10.0.1.0/29")
	assert.Equal(t, ipam.Counts{Free: 5}, counts())
	a.Release(given[1], now)
	a.Return(given[2]) // an Attach that fails meanwhile
	a.Withdraw(errBroken)
	_, err := a.Allocate(now)
	assert.ErrorIs(t, err, errNoPrefix)
	assert.ErrorIs(t, err, errBroken)
	use("10.0.0.0/29")
	assert.Equal(t, ipam.Counts{Used: 1, Cooling: 2, Free: 2}, counts())
}

// A restart claims what is in use, then claims and releases what was given back
// earlier: an address that was given again by then stays taken.
func TestReleaseOfAnEarlierHolder(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("prefixes known: ", known), func(t *testing.T) {
			a := &addresses{coolDown: time.Minute}
			use := func() { require.NoError(t, a.Use([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")})) }
			if known {
				use()
			}
			now := time.Now()
			addr := []netip.Addr{netip.MustParseAddr("10.0.0.2")}
			a.Claim(addr)
			a.Claim(addr)
			a.Release(addr, now.Add(-time.Hour))
			if !known {
				use()
			}
			pool, _, err := a.Known()
			require.NoError(t, err)
			assert.Equal(t, ipam.Counts{Used: 1, Free: 4}, pool.Counts(now))
		})
	}
}
