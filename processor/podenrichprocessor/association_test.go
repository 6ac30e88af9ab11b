// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
)

// namedAddr is the address of a receiver that has a type of its own for it.
type namedAddr string

func (namedAddr) Network() string  { return "tcp" }
func (a namedAddr) String() string { return string(a) }

func TestAssociations(t *testing.T) {
	attribute := func(names ...string) (a AssociationConfig) {
		for _, name := range names {
			a.Sources = append(a.Sources, SourceConfig{From: fromAttribute, Name: name})
		}
		return a
	}
	connection := AssociationConfig{Sources: []SourceConfig{{From: fromConnection}}}
	of := func(a ...AssociationConfig) []AssociationConfig { return a }
	tcp := func(addr string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(addr), Port: 40000} }

	for _, tc := range []struct {
		name         string
		associations []AssociationConfig
		resource     attrs
		sender       net.Addr
		want         any
		outcome      string
	}{
		// Attributes.
		{name: "any attribute is an address", associations: of(attribute("net.host.ip")), resource: attrs{"net.host.ip": "10.9.0.5:80"}, want: "web-0", outcome: "found"},
		{name: "the first that is known wins", associations: of(attribute("a"), attribute("b")), resource: attrs{"a": "10.9.0.6", "b": "10.9.0.5"}, want: "cart-0", outcome: "found"},
		{name: "an absent one is passed over", associations: of(attribute("a"), attribute("b")), resource: attrs{"b": "10.9.0.5"}, want: "web-0", outcome: "found"},
		{name: "an unknown one is passed over", associations: of(attribute("a"), attribute("b")), resource: attrs{"a": "10.200.0.1", "b": "10.9.0.5"}, want: "web-0", outcome: "found"},
		{name: "one that is no address is passed over", associations: of(attribute("host.name"), attribute("b")), resource: attrs{"host.name": "node", "b": "10.9.0.5"}, want: "web-0", outcome: "found"},
		{name: "an ambiguous one is not", associations: of(attribute("a"), attribute("b")), resource: attrs{"a": "10.9.0.8", "b": "10.9.0.5"}, outcome: "ambiguous"},
		{name: "nor an ended one", associations: of(attribute("a"), attribute("b")), resource: attrs{"a": "10.9.0.9", "b": "10.9.0.5"}, outcome: "ended"},
		{name: "none is known", associations: of(attribute("a"), attribute("b")), resource: attrs{"a": "10.200.0.1"}, outcome: "unknown"},
		{name: "k8s.pod.ip is not asked unless listed", associations: of(attribute("a")), resource: attrs{"k8s.pod.ip": "10.9.0.5"}, outcome: "no_key"},
		{name: "strong keys are always asked", associations: of(attribute("a")), resource: attrs{"k8s.pod.uid": "uid-of-web-0", "a": "10.9.0.6"}, want: "web-0", outcome: "found"},
		{name: "container.id is a sandbox id where listed", associations: of(attribute("container.id")), resource: attrs{"container.id": "sandbox-of-web-0"}, want: "web-0", outcome: "found"},
		{name: "all sources of one association agree", associations: of(attribute("container.id", "k8s.pod.ip")), resource: attrs{"container.id": "sandbox-of-web-0", "k8s.pod.ip": "10.9.0.5"}, want: "web-0", outcome: "found"},
		{name: "they don't", associations: of(attribute("container.id", "k8s.pod.ip")), resource: attrs{"container.id": "other", "k8s.pod.ip": "10.9.0.5"}, outcome: "mismatch"},
		{name: "one of them is missing", associations: of(attribute("container.id", "k8s.pod.ip")), resource: attrs{"k8s.pod.ip": "10.9.0.5"}, outcome: "no_key"},

		// A container.id alone may be a sandbox's or an application's container's.
		{name: "known sandbox before an association", associations: of(attribute("a")), resource: attrs{"container.id": "sandbox-of-cart-0", "a": "10.9.0.5"}, want: "cart-0", outcome: "found"},
		{name: "known sandbox before k8s.pod.ip", resource: attrs{"container.id": "sandbox-of-cart-0", "k8s.pod.ip": "10.9.0.5"}, want: "cart-0", outcome: "found"},
		{name: "known sandbox before the connection", associations: of(connection), resource: attrs{"container.id": "sandbox-of-cart-0"}, sender: tcp("10.9.0.5"), want: "cart-0", outcome: "found"},
		{name: "known sandbox beside an unknown address", associations: of(attribute("a")), resource: attrs{"container.id": "sandbox-of-cart-0", "a": "10.200.0.1"}, want: "cart-0", outcome: "found"},
		{name: "known sandbox beside what is no address", associations: of(attribute("a")), resource: attrs{"container.id": "sandbox-of-cart-0", "a": "node"}, want: "cart-0", outcome: "found"},
		{name: "sandbox that has ended before k8s.pod.ip", resource: attrs{"container.id": "sandbox-of-old-0", "k8s.pod.ip": "10.9.0.7"}, outcome: "ended"},
		{name: "pod UID before a known sandbox", resource: attrs{"k8s.pod.uid": "uid-of-web-0", "container.id": "sandbox-of-cart-0"}, want: "web-0", outcome: "found"},
		{name: "known sandbox of a pod with another UID", resource: attrs{"k8s.pod.uid": "uid-of-none", "container.id": "sandbox-of-web-0"}, outcome: "mismatch"},
		{name: "application's container beside an association", associations: of(attribute("a")), resource: attrs{"container.id": "app", "a": "10.9.0.5"}, want: "web-0", outcome: "found"},
		{name: "application's container beside a pod UID", resource: attrs{"container.id": "app", "k8s.pod.uid": "uid-of-web-0"}, want: "web-0", outcome: "found"},

		// Connections.
		{name: "sender by TCP", associations: of(connection), sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "sender by UDP", associations: of(connection), sender: &net.UDPAddr{IP: net.ParseIP("fd00::5"), Zone: "eth0"}, want: "web-0", outcome: "found"},
		{name: "sender with an address alone", associations: of(connection), sender: &net.IPAddr{IP: net.ParseIP("::ffff:10.9.0.5")}, want: "web-0", outcome: "found"},
		{name: "sender of a receiver's own type", associations: of(connection), sender: namedAddr("10.9.0.5:40000"), want: "web-0", outcome: "found"},
		{name: "sender on a socket file", associations: of(connection), sender: &net.UnixAddr{Name: "/run/app.sock"}, outcome: "unusable_key"},
		{name: "loopback sender", associations: of(connection), sender: tcp("127.0.0.1"), outcome: "unusable_key"},
		{name: "sender with the node's address", associations: of(connection), sender: tcp("192.0.2.1"), outcome: "unknown"},
		{name: "sender behind NAT", associations: of(connection), sender: tcp("198.51.100.9"), outcome: "unknown"},
		{name: "nobody sent it", associations: of(connection), outcome: "no_key"},
		{name: "not asked unless listed", sender: tcp("10.9.0.5"), outcome: "no_key"},

		// The sender of another pod's data, such as an agent that passes it on.
		{name: "data of another pod by address", associations: of(connection), resource: attrs{"k8s.pod.ip": "10.200.0.1"}, sender: tcp("10.9.0.5"), outcome: "no_key"},
		{name: "data of another pod by UID", associations: of(connection), resource: attrs{"k8s.pod.uid": "uid-of-none"}, sender: tcp("10.9.0.5"), outcome: "unknown"},
		{name: "data of another pod by name", associations: of(connection), resource: attrs{"k8s.pod.name": "theirs"}, sender: tcp("10.9.0.5"), want: "theirs", outcome: "conflict"},
		{name: "data of another pod by an association", associations: of(attribute("a"), connection), resource: attrs{"a": "10.200.0.1"}, sender: tcp("10.9.0.5"), outcome: "unknown"},
		{name: "data of another pod by an address that tells none", associations: of(attribute("a"), connection), resource: attrs{"a": "127.0.0.6"}, sender: tcp("10.9.0.5"), outcome: "unusable_key"},
		{name: "data of another pod by a part of an association", associations: of(attribute("container.id", "a"), connection), resource: attrs{"a": "10.200.0.1"}, sender: tcp("10.9.0.5"), outcome: "no_key"},
		{name: "data of another pod by a strong key that is none", associations: of(connection), resource: attrs{"linux.netns.inode": -1}, sender: tcp("10.9.0.5"), outcome: "unusable_key"},
		{name: "an association's own attribute and its connection", associations: of(AssociationConfig{Sources: []SourceConfig{{From: fromAttribute, Name: "container.id"}, {From: fromConnection}}}), resource: attrs{"container.id": "sandbox-of-web-0"}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "an empty pod UID says nothing", associations: of(attribute("k8s.pod.ip"), connection), resource: attrs{"k8s.pod.uid": ""}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "nor does an empty address", associations: of(attribute("k8s.pod.ip"), connection), resource: attrs{"k8s.pod.ip": ""}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "nor an attribute without a value", associations: of(attribute("a"), connection), resource: attrs{"a": nil}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "empty attributes alone are no key", associations: of(attribute("a")), resource: attrs{"k8s.pod.uid": "", "linux.netns.inode": "", "a": ""}, outcome: "no_key"},
		{name: "data that says nothing of its pod", associations: of(attribute("a"), connection), resource: attrs{"service.name": "web"}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "the pod's own name is completed", associations: of(connection), resource: attrs{"k8s.pod.name": "web-0"}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
		{name: "application's container id says nothing of its pod", associations: of(connection), resource: attrs{"container.id": "app"}, sender: tcp("10.9.0.5"), want: "web-0", outcome: "found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withIdentities(t, node(), func(t *testing.T, identities component.Component) {
				b := newBed(t, newConfig(func(c *Config) { c.Associations = tc.associations }), identities)
				ctx := context.Background()
				if tc.sender != nil {
					ctx = sentFrom(tc.sender)
				}
				require.NoError(t, b.ConsumeMetrics(ctx, oneResource(t, tc.resource, epoch)))
				assert.Equal(t, tc.want, b.resource(t)["k8s.pod.name"])
				assert.Equal(t, map[string]int64{tc.outcome: 1}, b.outcomes(t, "resources"))
			})
		})
	}
}
