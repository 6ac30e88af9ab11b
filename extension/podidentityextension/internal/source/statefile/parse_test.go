// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

func addrs(ss ...string) []netip.Addr {
	var as []netip.Addr
	for _, s := range ss {
		as = append(as, netip.MustParseAddr(s))
	}
	return as
}

// want is a record in short.
type want struct {
	owner, name, uid string // name is "namespace/name"
	addrs            []string
	hns              []string
	netns            string
	labels           map[string]string
}

func assertPods(t *testing.T, want []want, pods []pod) {
	t.Helper()
	require.Len(t, pods, len(want))
	for i, w := range want {
		p := pods[i]
		assert.Equal(t, w.owner, p.Owner)
		ns, name, _ := strings.Cut(w.name, "/")
		assert.Equal(t, podidentity.Identity{Name: name, Namespace: ns, UID: w.uid, Labels: w.labels}, p.Identity, w.owner)
		assert.ElementsMatch(t, addrs(w.addrs...), p.Addresses, w.owner)
		assert.ElementsMatch(t, w.hns, p.HNSEndpoints, w.owner)
		assert.Equal(t, w.netns, p.netns, w.owner)
		if len(w.owner) == 64 {
			assert.Equal(t, w.owner, p.Sandbox)
		}
	}
}

// sample reads every file of a format's sample and merges what they say.
func sample(t *testing.T, format, path string) ([]pod, []error) {
	t.Helper()
	path = filepath.Join("testdata", path)
	r := newReader([]string{path}, formats[format], zap.NewNop())
	t.Cleanup(r.watches.close)
	l := r.look(time.Now(), false)
	require.NoError(t, l.err)
	pods, conflicts := merge(l.pods)
	return pods, append(l.broken, conflicts...)
}

// id is the container id that the samples give to a nickname.
func id(nick string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(nick))) }

const (
	bedID    = "9afea7d4320413a917c2e32561befbb0e007728f9caf38e38cf67dbb70872ddb"
	bedptpID = "60911c3642d9a6fac2dec3c01ca81064b79d55e79c0e769dbf1af535060be5c7"
)

func TestSamples(t *testing.T) {
	for _, tt := range []struct {
		name, format, path string
		want               []want
	}{
		{
			name: "Azure CNI on Windows: both families, a re-created pod, a second network card", format: formatAzureVNet, path: "azure-vnet-windows.json",
			want: []want{
				{owner: id("web-0"), name: "shop/web-0", addrs: []string{"10.9.0.5", "fd00:9::5"}, hns: []string{"41d44f3e-820a-406a-ade6-6b044f3e0063"}},
				{
					owner: id("two"), name: "lab/two-nics-0", addrs: []string{"10.9.0.8", "10.77.0.4"},
					hns: []string{"a1d44f3e-820a-406a-ade6-6b044f3e0003", "a1d44f3e-820a-406a-ade6-6b044f3e0004"},
				},
				{owner: id("api-new"), name: "shop/api-7d9c", addrs: []string{"10.9.0.7"}, hns: []string{"a1d44f3e-820a-406a-ade6-6b044f3e0002"}},
				{owner: id("api-old"), name: "shop/api-7d9c", addrs: []string{"10.9.0.6"}, hns: []string{"a1d44f3e-820a-406a-ade6-6b044f3e0001"}},
			},
		},
		{
			name: "Azure CNI on Windows, old: no pod names, joined by container id", format: formatAzureVNet, path: "azure-vnet-windows-old.json",
			want: []want{
				{owner: id("old-1"), name: "/", addrs: []string{"10.9.0.12"}, hns: []string{"b1d44f3e-820a-406a-ade6-6b044f3e0012"}},
				{owner: id("old-0"), name: "/", addrs: []string{"10.9.0.11"}, hns: []string{"b1d44f3e-820a-406a-ade6-6b044f3e0011"}},
			},
		},
		{
			name: "Azure CNI on Linux: namespace paths, secondary interfaces", format: formatAzureVNet, path: "azure-vnet-linux.json",
			want: []want{
				{owner: id("db-0"), name: "shop/db-0", addrs: []string{"10.9.0.21"}, netns: "/var/run/netns/cni-1b9f7d3e-0001-4d0c-9c3e-7f0000000001"},
				{owner: id("db-1"), name: "shop/db-1", addrs: []string{"10.9.0.22", "10.88.0.9"}, netns: "/var/run/netns/cni-1b9f7d3e-0001-4d0c-9c3e-7f0000000002"},
			},
		},
		{name: "Azure CNI without pods", format: formatAzureVNet, path: "azure-vnet-no-pods.json"},
		{
			name: "Azure CNS on Linux: an endpoint being made is null", format: formatAzureCNS, path: "azure-endpoints-linux.json",
			want: []want{
				{owner: id("web-2"), name: "shop/web-2", addrs: []string{"10.9.1.7"}},
				{owner: id("web-1"), name: "shop/web-1", addrs: []string{"10.9.1.6", "fd00:9:1::6"}},
			},
		},
		{
			name: "Azure CNS on Windows: the second network card has an entry of its own", format: formatAzureCNS, path: "azure-endpoints-windows.json",
			want: []want{{
				owner: id("win-1"), name: "shop/win-1", addrs: []string{"10.9.1.16", "10.78.1.16"},
				hns: []string{"c1d44f3e-820a-406a-ade6-6b044f3e0021", "c1d44f3e-820a-406a-ade6-6b044f3e0022"},
			}},
		},
		{
			name: "libcni's cache, of containerd: loopback is left out", format: formatCNIResults, path: "cni-results",
			want: []want{
				{
					owner: bedptpID, name: "demo/ptp-0", uid: "00000000-0000-4000-8000-e665880cc4bb", addrs: []string{"10.245.0.2", "fd00:10:245::2"},
					netns: "/run/cribed/state/io.containerd.grpc.v1.cri/netns/cni-d7bf0bc3-37d7-5842-7598-9ac651950e0f",
				},
				{
					owner: bedID, name: "demo/p-0", uid: "00000000-0000-4000-8000-e6638ad26bcc", addrs: []string{"10.244.0.2", "fd00:10:244::2"},
					netns: "/run/cribed/state/io.containerd.grpc.v1.cri/netns/cni-5281a8f6-acef-29fa-f8e4-f767c6609781",
				},
			},
		},
		{
			name: "host-local: no names, both families, lock and last_reserved_ip left out", format: formatHostLocal, path: "host-local",
			want: []want{
				{owner: bedptpID, name: "/", addrs: []string{"10.245.0.2", "fd00:10:245::2"}},
				{owner: bedID, name: "/", addrs: []string{"10.244.0.2", "fd00:10:244::2"}},
			},
		},
		{
			name: "host-local, one network", format: formatHostLocal, path: "host-local/bed",
			want: []want{{owner: bedID, name: "/", addrs: []string{"10.244.0.2", "fd00:10:244::2"}}},
		},
		{
			name: "Amazon VPC CNI: two interfaces of one pod", format: formatAWSIPAMD, path: "aws-ipam.json",
			want: []want{
				{owner: id("a2"), name: "lab/multi-0", addrs: []string{"192.168.33.9", "192.168.48.9"}},
				{owner: id("a0"), name: "shop/web-0", addrs: []string{"192.168.33.7"}},
				{owner: id("a1"), name: "shop/web-1", addrs: []string{"2001:db8:33::8"}},
			},
		},
		{
			name: "Cilium: JSON, the older header, the host's endpoint and templates left out", format: formatCilium, path: "cilium",
			want: []want{
				{
					owner: id("c0"), name: "shop/web-0", uid: "6b0d5c1e-1111-4c2f-8e1a-000000000042", addrs: []string{"10.0.1.42", "fd00:1::42"},
					netns: "/var/run/netns/cni-c0000000-0001-4d0c-9c3e-7f0000000042",
				},
				{owner: id("c1"), name: "shop/db-0", addrs: []string{"10.0.1.65"}},
			},
		},
		{
			name: "nerdctl: the namespace is containerd's, a stopped container is left out", format: formatNerdctl, path: "nerdctl",
			want: []want{
				{owner: id("n1"), name: "default/db", addrs: []string{"10.4.0.3", "10.4.7.3"}},
				{owner: id("n0"), name: "default/web", addrs: []string{"10.4.0.2"}},
			},
		},
		{
			name: "nerdctl, one address hash", format: formatNerdctl, path: "nerdctl/1935db59",
			want: []want{
				{owner: id("n1"), name: "default/db", addrs: []string{"10.4.0.3", "10.4.7.3"}},
				{owner: id("n0"), name: "default/web", addrs: []string{"10.4.0.2"}},
			},
		},
		{
			name: "nerdctl 2, whose namespace is that of the path", format: formatNerdctl, path: "nerdctl-v2",
			want: []want{{owner: id("n0"), name: "prod/web", addrs: []string{"10.4.0.2"}}},
		},
		{
			name: "nerdctl 2, the hosts of one address hash", format: formatNerdctl, path: "nerdctl-v2/1935db59/etchosts",
			want: []want{{owner: id("n0"), name: "prod/web", addrs: []string{"10.4.0.2"}}},
		},
		{name: "list in YAML", format: formatList, path: "list.yaml", want: listWant},
		{name: "list in JSON", format: formatList, path: "list.json", want: listWant},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods, broken := sample(t, tt.format, tt.path)
			assert.Empty(t, broken)
			assertPods(t, tt.want, pods)
		})
		t.Run(tt.name+", detected", func(t *testing.T) {
			pods, broken := sample(t, "", tt.path)
			assert.Empty(t, broken)
			assertPods(t, tt.want, pods)
		})
	}
}

var listWant = []want{
	{
		owner: "0f2d3c4b5a", name: "shop/web-0", uid: "6b0d5c1e-2222-4c2f-8e1a-000000000001", addrs: []string{"10.9.0.5", "fd00::5"},
		netns: "/var/run/netns/web", labels: map[string]string{"app": "web", "canary": "true", "tier": "1"},
	},
	{owner: "shop/db-0", name: "shop/db-0", addrs: []string{"10.9.0.6"}},
}

func TestAWSAllocationTimeIsTheBegin(t *testing.T) {
	pods, _ := sample(t, formatAWSIPAMD, "aws-ipam.json")
	assert.Equal(t, time.Unix(1690000002, 0), pods[0].Begin, "the earlier of two interfaces")
	assert.Equal(t, time.Unix(1690000000, 0), pods[1].Begin)
}

// parserOf is a format's parser, on text in a file whose name is an address.
func parserOf(format string) func(string) (answer, error) {
	return func(text string) (answer, error) { return formats[format].parse("10.9.0.5", []byte(text)) }
}

// TestWholeFileRefused has what is no state at all: it must be an error and
// never an answer of no pods.
func TestWholeFileRefused(t *testing.T) {
	for _, tt := range []struct{ name, format, text, err string }{
		{"another JSON object", formatAzureVNet, `{"Endpoints":{}}`, `has no "Network" object`},
		{"null network", formatAzureVNet, `{"Network":null}`, `has no "Network" object`},
		{"interfaces of another type", formatAzureVNet, `{"Network":{"ExternalInterfaces":[]}}`, "cannot unmarshal array"},
		{"two values", formatAzureVNet, `{"Network":{}}{"Network":{}}`, "after top-level value"},
		{"an old tail after a shorter text", formatAzureVNet, `{"Network":{}}0,"Fam`, "after top-level value"},
		{"array", formatAzureVNet, `[]`, "cannot unmarshal array"},
		{"another JSON object", formatAzureCNS, `{"Network":{}}`, `has no "Endpoints" object`},
		{"list of endpoints", formatAzureCNS, `{"Endpoints":[1]}`, `"Endpoints": `},
		{"another JSON object", formatAWSIPAMD, `{"pods":[]}`, `has no "allocations" list`},
		{"another version", formatAWSIPAMD, `{"version":"vpc-cni-ipam/2","allocations":[]}`, `version is "vpc-cni-ipam/2"; only "vpc-cni-ipam/1" is known`},
		{"a bare result of old libcni", formatCNIResults, `{"cniVersion":"0.3.1","ips":[]}`, `kind is "", not "cniCacheV1"`},
		{"no container", formatCNIResults, `{"kind":"cniCacheV1","ifName":"eth0"}`, "has no containerId"},
		{"no id", formatHostLocal, "\r\neth0", "holds no container id"},
		{"header without state", formatCilium, "/* nothing */\n", "holds neither a JSON object"},
		{"header cut off", formatCilium, "/*\n * CILIUM_BASE64_eA==:e30=", "half-written"},
		{"header of no base64", formatCilium, " * CILIUM_BASE64_eA==:%%%\n", "illegal base64"},
		{"no id", formatNerdctl, `{"Name":"web"}`, "has no ID"},
		{"null", formatNerdctl, `null`, "has no ID"},
		{"no pods", formatList, `{"podz":[]}`, `has no "pods" list`},
		{"pods null", formatList, `{"pods":null}`, "pods: has no value; write [] when there are none"},
		{"pods a mapping", formatList, `{"pods":{}}`, "pods: "},
		{"YAML: comments only", formatList, "# none\n", `has no "pods" list`},
		{"YAML: a scalar", formatList, "pods\n", `has no "pods" list`},
		{"YAML: pods without value", formatList, "pods:\n", "pods: has no value; write [] when there are none"},
		{"YAML: pods a mapping", formatList, "pods:\n  name: a\n", "pods: is no list"},
		{"YAML: two documents", formatList, "pods: []\n---\npods: []\n", "more than one YAML document"},
		{"YAML: last line cut off", formatList, "pods:\n  - name: web-0\n    names", "its last line has no end"},
		{"YAML: a tab", formatList, "pods:\n\t- name: a\n", "cannot start any token"},
		{"YAML: aliases that multiply", formatList, aliasBomb(), "has a YAML alias"},
		{"YAML: too large", formatList, "pods: [" + strings.Repeat(" ", maxYAML) + "]", "write it in JSON"},
	} {
		t.Run(tt.format+": "+tt.name, func(t *testing.T) {
			a, err := parserOf(tt.format)(tt.text)
			if err == nil && len(a.broken) > 0 && len(a.pods) == 0 {
				err = a.broken[0] // what file.read makes an error of the whole
			}
			require.ErrorContains(t, err, tt.err)
			assert.Empty(t, a.pods)
		})
	}
}

func aliasBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	b.WriteString("pods: [{name: a, namespace: b, addresses: *a8}]\n")
	return b.String()
}

// TestBrokenEntryCostsItself has files in which one entry cannot be read and
// another one can.
func TestBrokenEntryCostsItself(t *testing.T) {
	azure := func(broken string) string {
		return `{"Network":{"ExternalInterfaces":{"e":{"Networks":{"n":{"Endpoints":{"bad-eth0":` + broken +
			`,"good-eth0":{"ContainerID":"good","PODName":"web-0","PODNameSpace":"shop","IPAddresses":[{"IP":"10.9.0.5"}]}}}}}}}}`
	}
	cns := func(broken string) string {
		return `{"Endpoints":{"bad":` + broken + `,"good":{"PodName":"web-0","PodNamespace":"shop","IfnameToIPMap":{"eth0":{"IPv4":[{"IP":"10.9.0.5"}]}}}}}`
	}
	aws := func(broken string) string {
		return `{"version":"vpc-cni-ipam/1","allocations":[` + broken + `,{"containerID":"good","ipv4":"10.9.0.5","metadata":{"k8sPodNamespace":"shop","k8sPodName":"web-0"}}]}`
	}
	list := func(broken string) string {
		return `{"pods":[` + broken + `,{"name":"web-0","namespace":"shop","addresses":["10.9.0.5"],"sandbox_id":"good"}]}`
	}
	yaml := func(broken string) string {
		return "pods:\n- " + broken + "\n- {Name: web-0, NAMESPACE: shop, addresses: [10.9.0.5], sandbox_id: good}\n"
	}
	for _, tt := range []struct{ name, format, text, err string }{
		{"address", formatAzureVNet, azure(`{"ContainerID":"c","IPAddresses":[{"IP":"10.9.0"}]}`), `endpoint "bad-eth0": address "10.9.0" is neither`},
		{"type", formatAzureVNet, azure(`{"ContainerID":7}`), `endpoint "bad-eth0": json: cannot unmarshal number`},
		{"no key", formatAzureVNet, azure(`{}`), `endpoint "bad-eth0": has neither an address nor an id`},
		{"no owner", formatAzureVNet, azure(`{"IPAddresses":[{"IP":"10.9.0.6"}]}`), `endpoint "bad-eth0": has neither a container id nor a pod name`},
		{"secondary address", formatAzureVNet, azure(`{"ContainerID":"c","SecondaryInterfaces":{"eth1":{"IPConfigs":[{"Address":{"IP":"x"}}]}}}`), `endpoint "bad-eth0": address "x"`},
		{"a name of control characters", formatAzureVNet, azure(`{"ContainerID":"c","PODName":"a\u0000b","PODNameSpace":"n"}`), `endpoint "bad-eth0": pod name "a\x00b" holds`},
		{"a name too long", formatAzureVNet, azure(`{"ContainerID":"c","PODName":"` + strings.Repeat("a", 300) + `","PODNameSpace":"n"}`), "pod name is 300 bytes long"},
		{"address", formatAzureCNS, cns(`{"IfnameToIPMap":{"eth0":{"IPv6":[{"IP":"fd00::x"}]}}}`), `endpoint "bad": address "fd00::x"`},
		{"type", formatAzureCNS, cns(`[]`), `endpoint "bad": json: cannot unmarshal array`},
		{"address", formatAWSIPAMD, aws(`{"containerID":"c","ipv4":"x"}`), `allocation 0: address "x"`},
		{"no owner", formatAWSIPAMD, aws(`{"ipv4":"10.9.0.6"}`), `allocation 0: has neither a container id nor a pod name`},
		{"null", formatAWSIPAMD, aws(`null`), `allocation 0: has neither an address nor an id`},
		{"no name", formatList, list(`{"namespace":"n","addresses":[]}`), `pods[0] (name ""): name: is missing`},
		{"no namespace", formatList, list(`{"name":"a","addresses":[]}`), `pods[0] (name "a"): namespace: is missing`},
		{"no addresses", formatList, list(`{"name":"a","namespace":"n","adresses":["10.9.0.6"]}`), `pods[0] (name "a"): addresses: is missing`},
		{"a misspelt field", formatList, list(`{"name":"a","namespace":"n","addresses":["10.9.0.6"],"sandbox":"s"}`),
			`pods[0] (name "a"): "sandbox" is no field of a pod; these are: name, namespace, uid, addresses, labels, sandbox_id, netns`},
		{"an empty address", formatList, list(`{"name":"a","namespace":"n","addresses":[""]}`), `pods[0] (name "a"): addresses: holds an empty one`},
		{"address", formatList, list(`{"name":"a","namespace":"n","addresses":["10.9.0.256"]}`), `pods[0] (name "a"): addresses: address "10.9.0.256"`},
		{"netns", formatList, list(`{"name":"a","namespace":"n","addresses":[],"netns":"web"}`), `pods[0] (name "a"): netns: "web" is no absolute path`},
		{"no key at all", formatList, list(`{"name":"a","namespace":"n","addresses":[]}`), `has neither an address nor an id`},
		{"YAML: address", formatList, yaml(`{name: a, namespace: n, addresses: [10.9]}`), `pods[0] (name "a"): addresses: address "10.9"`},
		{"YAML: addresses no list", formatList, yaml(`{name: a, namespace: n, addresses: 10.9.0.6}`), `pods[0] (name "a"): line 2: cannot unmarshal !!str`},
		{"YAML: a scalar", formatList, yaml(`web-1`), `pods[0] (name ""): line 2: cannot unmarshal !!str`},
	} {
		t.Run(tt.format+": "+tt.name, func(t *testing.T) {
			a, err := parserOf(tt.format)(tt.text)
			require.NoError(t, err)
			require.Len(t, a.broken, 1)
			assert.ErrorContains(t, a.broken[0], tt.err)
			pods, conflicts := merge(a.pods)
			assert.Empty(t, conflicts)
			assertPods(t, []want{{owner: "good", name: "shop/web-0", addrs: []string{"10.9.0.5"}}}, pods)
		})
	}
}

func TestTolerated(t *testing.T) {
	for _, tt := range []struct {
		name, format, text string
		want               []want
	}{
		{
			"field names in any case, unknown fields, addresses that tell nothing", formatAzureVNet,
			`{"network":{"EXTERNALINTERFACES":{"e":{"networks":{"n":{"endpoints":{"x":{"new":{"deep":[1]},"containerid":"c","podname":"a","podnamespace":"n",
			"ipaddresses":[{"ip":"::ffff:10.9.0.5","mask":"x"},{"ip":"169.254.1.1"},{"ip":"fe80::1"},{"ip":""}]}}},"m":null}},"f":null}}}`,
			[]want{{owner: "c", name: "n/a", addrs: []string{"10.9.0.5"}}},
		},
		{
			"a name without a namespace is no identity", formatAzureVNet,
			`{"Network":{"ExternalInterfaces":{"e":{"Networks":{"n":{"Endpoints":{"x":{"ContainerID":"c","PODName":"a","IPAddresses":[{"IP":"10.9.0.5"}]},"y":null}}}}}}}`,
			[]want{{owner: "c", name: "/", addrs: []string{"10.9.0.5"}}},
		},
		{"no interfaces yet", formatAzureVNet, `{"Network":{"Version":"v1"}}`, nil},
		{"no endpoints yet", formatAzureCNS, `{"Endpoints":null}`, nil},
		{"no allocations yet", formatAWSIPAMD, `{"version":"vpc-cni-ipam/1","allocations":null}`, nil},
		{"no pods", formatList, `{"pods":[]}`, nil},
		{"no pods in YAML", formatList, "pods: []", nil},
		{"YAML in flow style", formatList, `{pods: [{name: a, namespace: n, addresses: [10.9.0.5]}]}`, []want{{owner: "n/a", name: "n/a", addrs: []string{"10.9.0.5"}}}},
		{"leading white space", formatList, "\n  {\"pods\": []}", nil},
		{"a host-network pod by its UID", formatList, `{"pods":[{"name":"a","namespace":"n","uid":"u","addresses":[]}]}`, []want{{owner: "u", name: "n/a", uid: "u"}}},
		{"an address with its prefix length", formatList, `{"pods":[{"name":"a","namespace":"n","addresses":["10.9.0.5/24"]}]}`, []want{{owner: "n/a", name: "n/a", addrs: []string{"10.9.0.5"}}}},
		{"an id alone", formatHostLocal, "c", []want{{owner: "c", name: "/", addrs: []string{"10.9.0.5"}}}},
		{
			"a result of CNI 0.2, arguments in any order, odd ones ignored", formatCNIResults,
			`{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","cniArgs":[["K8S_POD_NAMESPACE","n"],["x"],["K8S_POD_NAME","a"],["Ignore","1","2"]],"netns":"/var/run/netns/c",
			"result":{"ip4":{"ip":"10.9.0.5/24"},"ip6":{"ip":"fd00::5/64"}}}`,
			[]want{{owner: "c", name: "n/a", addrs: []string{"10.9.0.5", "fd00::5"}, netns: "/var/run/netns/c"}},
		},
		{
			"addresses of the host's interfaces are the host's; a process is no namespace", formatCNIResults,
			`{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","netns":"/proc/42/ns/net","result":{"interfaces":[{"name":"br"},{"name":"eth0","sandbox":"/proc/42/ns/net"}],
			"ips":[{"address":"10.9.0.1/24","interface":0},{"address":"10.9.0.5/24","interface":1},{"address":"10.9.0.6/24"},{"address":"10.9.0.7/24","interface":9}]}}`,
			[]want{{owner: "c", name: "/", addrs: []string{"10.9.0.5", "10.9.0.6", "10.9.0.7"}}},
		},
		{
			"a plugin that names no sandbox", formatCNIResults,
			`{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","result":{"interfaces":[{"name":"cali1"}],"ips":[{"address":"10.9.0.5/32","interface":0}]}}`,
			[]want{{owner: "c", name: "/", addrs: []string{"10.9.0.5"}}},
		},
		{"a node's own endpoint", formatCilium, `{"ID":4,"IPv4":"10.0.0.4"}`, nil},
	} {
		t.Run(tt.format+": "+tt.name, func(t *testing.T) {
			a, err := parserOf(tt.format)(tt.text)
			require.NoError(t, err)
			assert.Empty(t, a.broken)
			pods, conflicts := merge(a.pods)
			assert.Empty(t, conflicts)
			assertPods(t, tt.want, pods)
		})
	}
}

// TestEntriesThatDisagree has one container under two names: no name is better
// than a guessed one.
func TestEntriesThatDisagree(t *testing.T) {
	a, err := parserOf(formatAWSIPAMD)(`{"allocations":[
		{"containerID":"c","ipv4":"10.9.0.5","metadata":{"k8sPodNamespace":"n","k8sPodName":"a"}},
		{"containerID":"c","ipv4":"10.9.0.6","metadata":{"k8sPodNamespace":"n","k8sPodName":"b"}},
		{"containerID":"d","ipv4":"10.9.0.7","metadata":{"k8sPodNamespace":"n","k8sPodName":"b"}}]}`)
	require.NoError(t, err)
	pods, conflicts := merge(a.pods)
	assertPods(t, []want{{owner: "d", name: "n/b", addrs: []string{"10.9.0.7"}}}, pods)
	require.Len(t, conflicts, 1)
	assert.EqualError(t, conflicts[0], `container "c": its entries disagree on the pod name: "a" and "b"`)
}

// TestListWithAPodTwice: the second entry may be a copy whose name was not
// changed; its address is nobody's.
func TestListWithAPodTwice(t *testing.T) {
	for name, list := range map[string]string{
		"JSON": `{"pods":[{"name":"a","namespace":"n","addresses":["10.9.0.6"]},{"name":"b","namespace":"n","addresses":[]  ,"uid":"u"},
			{"name":"a","namespace":"n","addresses":["10.9.0.7"]}]}`,
		"YAML": "pods:\n- {name: a, namespace: n, addresses: [10.9.0.6]}\n- {name: b, namespace: n, addresses: [], uid: u}\n" +
			"- {name: a, namespace: n, addresses: [10.9.0.7]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, err := parseList([]byte(list))
			require.NoError(t, err)
			require.Len(t, a.pods, 2)
			assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.9.0.6")}, a.pods[0].Addresses)
			require.Len(t, a.broken, 1)
			assert.EqualError(t, a.broken[0], `pods[2] (name "a"): is the same pod as pods[0]; `+
				`write all its addresses into one entry, or give each pod its own name, uid or sandbox_id`)
		})
	}
	// Namesakes that can be told apart are two pods.
	a, err := parseList([]byte(`{"pods":[{"name":"a","namespace":"n","addresses":["10.9.0.6"],"uid":"u1"},
		{"name":"a","namespace":"n","addresses":["10.9.0.7"],"uid":"u2"}]}`))
	require.NoError(t, err)
	require.Len(t, a.pods, 2)
	require.Empty(t, a.broken)
}
