// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

var (
	identityID = component.MustNewID("podidentity")
	storageID  = component.MustNewID("file_storage")
)

// host is a Collector with the two extensions that workloadnet needs.
type host struct {
	extensions map[component.ID]component.Component
	events     chan *componentstatus.Event
}

func (h *host) GetExtensions() map[component.ID]component.Component { return h.extensions }
func (h *host) Report(e *componentstatus.Event)                     { h.events <- e }

// node is a node whose collector can be started and stopped: what must outlive
// the collector is in dir and in the kernel.
type node struct {
	tb  testing.TB
	dir string
	cfg *Config
	// settings, if set, are the collector's telemetry, and without is an
	// extension that its configuration leaves out.
	settings component.TelemetrySettings
	without  component.ID
	// identityConfig is podidentity's configuration, as in YAML.
	identityConfig map[string]any
	recheck        time.Duration // if set, how often podCIDRs are asked for

	// Of the collector that runs now.
	host     *host
	identity podidentity.Resolver
	ext      *workloadnetExtension
	logs     *observer.ObservedLogs
	client   pb.WorkloadNetworkingClient
	conn     *grpc.ClientConn
}

func newNode(tb testing.TB, prefixes ...string) *node {
	tb.Helper()
	nettest.NeedNode(tb)
	dir, err := os.MkdirTemp("", "wn") // tb.TempDir may be longer than a socket's path can be
	require.NoError(tb, err)
	n := &node{tb: tb, dir: dir, cfg: createDefaultConfig().(*Config)}
	n.cfg.Endpoint = unixScheme + filepath.Join(dir, "run", "workloadnet.sock")
	n.cfg.Storage = storageID
	if prefixes == nil {
		prefixes = []string{"10.88.0.0/24", "fd00:88::/64"}
	}
	for _, p := range prefixes {
		n.cfg.Prefixes = append(n.cfg.Prefixes, netip.MustParsePrefix(p))
	}
	tb.Cleanup(func() {
		n.stop()
		require.NoError(tb, os.RemoveAll(dir))
	})
	return n
}

// start starts a collector on the node.
func (n *node) start() *node {
	n.tb.Helper()
	require.NoError(n.tb, n.tryStart())
	return n
}

func (n *node) tryStart() error {
	n.tb.Helper()
	require.NoError(n.tb, confmap.Validate(n.cfg))
	n.host = &host{extensions: map[component.ID]component.Component{}, events: make(chan *componentstatus.Event, 100)}
	n.addStorage()
	identityFactory := podidentityextension.NewFactory()
	identityConfig := identityFactory.CreateDefaultConfig()
	require.NoError(n.tb, confmap.NewFromStringMap(n.identityConfig).Unmarshal(identityConfig))
	n.identity = n.add(identityFactory, identityID, identityConfig).(podidentity.Resolver)

	if n.without != (component.ID{}) {
		assert.NoError(n.tb, n.host.extensions[n.without].Shutdown(context.Background()))
		delete(n.host.extensions, n.without)
	}

	core, logs := observer.New(zap.InfoLevel)
	n.logs = logs
	set := extensiontest.NewNopSettings(metadata.Type)
	if n.settings.MeterProvider != nil {
		set.TelemetrySettings = n.settings
	}
	set.ID = component.NewID(metadata.Type) // by which the storage knows it again
	set.Logger = zap.New(core)
	ext, err := NewFactory().Create(context.Background(), set, n.cfg)
	require.NoError(n.tb, err)
	n.ext = ext.(*workloadnetExtension)
	if n.recheck != 0 {
		n.ext.recheck = n.recheck
	}
	if err := n.ext.Start(context.Background(), n.host); err != nil {
		return err
	}
	n.conn, err = grpc.NewClient(n.cfg.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(n.tb, err)
	n.client = pb.NewWorkloadNetworkingClient(n.conn)
	return nil
}

func (n *node) addStorage() component.Component {
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	cfg.Directory = n.dir
	return n.add(factory, storageID, cfg)
}

// add starts one of the extensions that workloadnet needs.
func (n *node) add(factory extension.Factory, id component.ID, cfg component.Config) component.Component {
	ext, err := factory.Create(context.Background(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(n.tb, err)
	require.NoError(n.tb, ext.Start(context.Background(), n.host))
	n.host.extensions[id] = ext
	return ext
}

// stop ends the collector.
func (n *node) stop() {
	n.tb.Helper()
	if n.ext == nil {
		return
	}
	if n.conn != nil {
		assert.NoError(n.tb, n.conn.Close())
	}
	assert.NoError(n.tb, n.ext.Shutdown(context.Background()))
	assert.NoError(n.tb, n.ext.Shutdown(context.Background()), "twice is once")
	for _, ext := range n.host.extensions {
		assert.NoError(n.tb, ext.Shutdown(context.Background()))
	}
	n.ext, n.conn = nil, nil
}

// request asks for pod to be attached as id.
func request(pod *nettest.Pod, id string) *pb.AttachRequest {
	r := goodRequest()
	r.WorkloadId, r.Netns.NetnsPath = id, pod.Path()
	r.Workload.Name, r.Workload.Uid = "pod-"+id, "uid-"+id
	return r
}

// attach attaches pod as id, and detaches it when the test ends.
func (n *node) attach(pod *nettest.Pod, id string) *pb.Attachment {
	n.tb.Helper()
	answer, err := n.client.Attach(context.Background(), request(pod, id))
	require.NoError(n.tb, err)
	n.tb.Cleanup(func() {
		if n.ext != nil {
			n.detach(id)
		}
		n.waitReaped()
	})
	return answer.Attachment
}

func (n *node) detach(id string) {
	n.tb.Helper()
	_, err := n.client.Detach(context.Background(), &pb.DetachRequest{WorkloadId: id})
	require.NoError(n.tb, err)
}

// waitReaped waits until the links of detached workloads are deleted.
func (n *node) waitReaped() {
	if n.ext != nil {
		n.ext.service.reaper.flush(context.Background())
	}
}

func (n *node) list() []*pb.Attachment {
	n.tb.Helper()
	answer, err := n.client.List(context.Background(), &pb.ListRequest{})
	require.NoError(n.tb, err)
	return answer.Attachments
}

// resolve returns the name of the pod that holds addr now, or how the look-up ended.
func (n *node) resolve(addr string) string {
	return n.ask(podidentity.Query{Address: netip.MustParseAddr(addr)})
}

func (n *node) ask(q podidentity.Query) string {
	identity, outcome := n.identity.Resolve(q)
	if outcome != podidentity.Found {
		return outcome.String()
	}
	return identity.Namespace + "/" + identity.Name
}

func ips(a *pb.Attachment) (ips []string) {
	for _, addr := range a.Addresses {
		ips = append(ips, addr.Ip)
	}
	return ips
}

// eventually is for what the kernel does in its own time.
func eventually(tb testing.TB, f func(c *assert.CollectT)) {
	tb.Helper()
	require.EventuallyWithT(tb, f, time.Minute, 5*time.Millisecond)
}

// brokenStorage is a storage client that reads nothing and can't write.
type brokenStorage struct{ storage.Client }

var errBroken = errors.New("disk full")

func (brokenStorage) Batch(_ context.Context, ops ...*storage.Operation) error {
	for _, op := range ops {
		if op.Type != storage.Get {
			return errBroken
		}
	}
	return nil
}

func brokenJournal(tb testing.TB) *journal.Journal {
	j, _, err := journal.Open(context.Background(), brokenStorage{storage.NewNopClient()}, 0)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, j.Close(context.Background())) })
	return j
}
