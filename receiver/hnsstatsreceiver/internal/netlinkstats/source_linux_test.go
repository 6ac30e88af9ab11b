// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBridge(t *testing.T) {
	n := newNode(t)
	n.ip("link add br0 type bridge\naddr add 10.1.0.1/24 dev br0\naddr add fd01::1/64 dev br0 nodad\nlink set br0 up")
	a := n.pod().veth("va", "eth0", "10.1.0.2/24", "fd01::2/64")
	b := n.pod().veth("vb", "eth0", "10.1.0.3/24", "fd01::3/64")
	n.ip("link set va master br0\nlink set vb master br0")
	s := n.started()
	got := n.read(s)
	require.Len(t, got, 2)
	require.Equal(t, addrs("10.1.0.2", "fd01::2"), got[a.key("eth0")].Addresses)
	require.Equal(t, addrs("10.1.0.3", "fd01::3"), got[b.key("eth0")].Addresses)
}
