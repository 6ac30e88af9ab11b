// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/metadata"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/metadatatest"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/nettest"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
	pb "github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/workloadnetpb"
	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

const nobody = 65534

// dialAs connects to a unix socket as another user: credentials are a thread's.
func dialAs(uid int, path string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			err = errno
			return
		}
		fd, e := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if e != nil {
			err = e
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == nil {
			conn, err = net.FileConn(f)
		}
	}()
	<-done
	return conn, err
}

func TestSocketIsPrivate(t *testing.T) {
	n := newNode(t).start()
	path := strings.TrimPrefix(n.cfg.Endpoint, unixScheme)
	for file, mode := range map[string]os.FileMode{filepath.Dir(path): os.ModeDir | 0o700, path: os.ModeSocket | 0o600} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), file)
	}
	_, err := dialAs(nobody, path)
	assert.ErrorIs(t, err, unix.EACCES)

	// Even with the file system's protection gone the service lets nobody in.
	for _, file := range []string{n.dir, filepath.Dir(path), path} {
		require.NoError(t, os.Chmod(file, 0o777))
	}
	for range 3 {
		conn, err := grpc.NewClient("passthrough:///nobody", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return dialAs(nobody, path) }))
		require.NoError(t, err)
		_, err = pb.NewWorkloadNetworkingClient(conn).List(context.Background(), &pb.ListRequest{})
		assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.NoError(t, conn.Close())
	}
	refused := n.logs.FilterMessageSnippet("Refused a connection").All()
	if assert.Len(t, refused, 1, "each user is logged once") {
		assert.Equal(t, uint32(nobody), refused[0].ContextMap()["uid"])
	}
	assert.Empty(t, n.list(), "root gets an answer")
}

func TestPeerCredentials(t *testing.T) {
	nettest.NeedNode(t)
	dir, err := os.MkdirTemp("", "wn")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, os.Chmod(filepath.Join(dir, "s"), 0o777))
	for _, tt := range []struct {
		name     string
		uid      int
		own      uint32
		accepted bool
	}{
		{"root, of a collector of root's", 0, 0, true},
		{"root, of a collector of another user's", 0, nobody, true},
		{"its own user", nobody, nobody, true},
		{"another user", nobody, 0, false},
		{"another user, of a collector of a third", nobody, 1234, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, err := dialAs(tt.uid, filepath.Join(dir, "s"))
			require.NoError(t, err)
			defer client.Close()
			server, err := listener.Accept()
			require.NoError(t, err)
			defer server.Close()
			_, _, err = (&peerCredentials{TransportCredentials: insecure.NewCredentials(), own: tt.own, logger: zap.NewNop()}).ServerHandshake(server)
			assert.Equal(t, tt.accepted, err == nil, "%v", err)
		})
	}
	t.Run("no unix socket", func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		_, _, err := (&peerCredentials{TransportCredentials: insecure.NewCredentials(), logger: zap.NewNop()}).ServerHandshake(a)
		assert.Error(t, err)
	})
}

func TestListen(t *testing.T) {
	socket := func(t *testing.T) string {
		dir, err := os.MkdirTemp("", "wn")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		return filepath.Join(dir, "a", "b", "s")
	}
	t.Run("after a clean stop", func(t *testing.T) {
		path := socket(t)
		for range 2 {
			l, err := listen(path)
			require.NoError(t, err)
			require.NoError(t, l.Close())
			assert.NoFileExists(t, path)
		}
	})
	t.Run("a stale socket is replaced", func(t *testing.T) {
		path := socket(t)
		l, err := listen(path)
		require.NoError(t, err)
		l.SetUnlinkOnClose(false) // as kill -9 leaves it
		require.NoError(t, l.Close())
		require.FileExists(t, path)
		l, err = listen(path)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	})
	t.Run("a socket in use is left alone", func(t *testing.T) {
		path := socket(t)
		l, err := listen(path)
		require.NoError(t, err)
		_, err = listen(path)
		assert.ErrorContains(t, err, "another process serves "+path)
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, l.Close())
	})
	t.Run("a file is left alone", func(t *testing.T) {
		path := socket(t)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
		_, err := listen(path)
		assert.ErrorContains(t, err, path+" exists and is not a socket")
		assert.FileExists(t, path)
	})
	t.Run("a directory that others may write to", func(t *testing.T) {
		path := socket(t)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
		_, err := listen(path)
		assert.ErrorContains(t, err, "other users may write to "+filepath.Dir(path)+" (mode 0777)")
	})
	t.Run("a directory where others may make files, though not delete them", func(t *testing.T) {
		path := socket(t)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky)) // as /tmp is
		_, err := listen(path)
		assert.ErrorContains(t, err, "other users may write to "+filepath.Dir(path)+" (mode 0777)")
	})
	t.Run("a directory above that others may write to", func(t *testing.T) {
		path := socket(t)
		above := filepath.Dir(filepath.Dir(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.Chmod(above, 0o777))
		_, err := listen(path)
		assert.ErrorContains(t, err, "other users may write to "+above+" (mode 0777)")
		t.Run("by a link", func(t *testing.T) {
			link := socket(t)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Dir(link)), 0o700))
			require.NoError(t, os.Symlink(filepath.Dir(path), filepath.Dir(link)))
			_, err := listen(link)
			assert.ErrorContains(t, err, "other users may write to "+above+" (mode 0777)")
		})
		t.Run("with a link in it", func(t *testing.T) {
			require.NoError(t, os.Remove(filepath.Dir(path)))
			require.NoError(t, os.Symlink(t.TempDir(), filepath.Dir(path)))
			_, err := listen(path)
			assert.ErrorContains(t, err, "other users may write to "+above+" (mode 0777)")
		})
	})
	t.Run("a directory of another user", func(t *testing.T) {
		nettest.NeedNode(t) // root
		for _, above := range []bool{false, true} {
			path := socket(t)
			dir := filepath.Dir(path)
			require.NoError(t, os.MkdirAll(dir, 0o700))
			if above {
				dir = filepath.Dir(dir)
			}
			require.NoError(t, os.Chown(dir, nobody, nobody))
			_, err := listen(path)
			assert.ErrorContains(t, err, dir+" belongs to user 65534")
		}
	})
	t.Run("one of many that find a stale socket gets it", func(t *testing.T) {
		path := socket(t)
		for range 20 {
			l, err := listen(path)
			require.NoError(t, err)
			l.SetUnlinkOnClose(false)
			require.NoError(t, l.Close())
			var wg sync.WaitGroup
			got := make(chan *socketListener, 8)
			for range cap(got) {
				wg.Go(func() {
					if l, err := listen(path); err == nil {
						got <- l
					} else {
						assert.ErrorContains(t, err, "another process serves "+path)
					}
				})
			}
			wg.Wait()
			require.Len(t, got, 1)
			conn, err := net.Dial("unix", path)
			require.NoError(t, err, "and it is the one that clients reach")
			require.NoError(t, conn.Close())
			require.NoError(t, (<-got).Close())
		}
	})
}

// A second collector on the same socket, with a storage of its own, ends before it
// has touched the first one's links, finished or not.
func TestSecondCollector(t *testing.T) {
	n := newNode(t).start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	ns, err := veth.OpenNetNS(nettest.NewPod(t).Path())
	require.NoError(t, err)
	defer ns.Close()
	// As the first one has it in the middle of an Attach.
	link, err := veth.Network{}.Create(context.Background(), ns, veth.Spec{WorkloadID: "sandbox-2", IfName: "eth0", Addresses: []netip.Addr{unusedAddr("sandbox-2")}})
	require.NoError(t, err)
	defer link.Close()
	before := nettest.NodeState(t)

	second := newNode(t)
	second.cfg.Endpoint = n.cfg.Endpoint
	assert.ErrorContains(t, second.tryStart(), "another process serves")
	second.stop()
	assert.Equal(t, before, nettest.NodeState(t))
	assert.Len(t, n.list(), 1, "the first one still answers")
	require.NoError(t, link.Undo())
}

// panicking is a publisher with a defect.
type panicking struct{ podidentity.Publisher }

func (panicking) Publish(podidentity.Record) error { panic("a defect") }

func TestPanicIsAnError(t *testing.T) {
	n := newNode(t).start()
	publisher, before := n.ext.service.publisher, nettest.NodeState(t)
	n.ext.service.publisher = panicking{publisher}
	_, err := n.client.Attach(context.Background(), request(nettest.NewPod(t), "sandbox-1"))
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.ErrorContains(t, err, "a defect of workloadnet: a defect")
	assert.Equal(t, 1, n.logs.FilterMessageSnippet("A request failed by a defect").Len())
	assert.Equal(t, before, nettest.NodeState(t))
	n.ext.service.publisher = publisher
	n.attach(nettest.NewPod(t), "sandbox-2")
}

func TestTelemetry(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(context.Background())) }()
	n := newNode(t, "10.88.0.0/29")
	n.settings = tel.NewTelemetrySettings()
	n.start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	gone := nettest.NewPod(t)
	n.attach(gone, "sandbox-2")
	_, err := n.client.Attach(context.Background(), &pb.AttachRequest{})
	require.Error(t, err)
	gone.Close()
	eventually(t, func(c *assert.CollectT) { assert.Len(c, n.list(), 1) })

	metadatatest.AssertEqualExtensionWorkloadnetAttachments(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
	state := func(s string) attribute.Set { return attribute.NewSet(attribute.String("state", s)) }
	metadatatest.AssertEqualExtensionWorkloadnetAddresses(t, tel, []metricdata.DataPoint[int64]{
		{Value: 1, Attributes: state("used")}, {Value: 1, Attributes: state("cooling")}, {Value: 3, Attributes: state("free")},
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualExtensionWorkloadnetVanished(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
	durations, err := tel.GetMetric("otelcol_extension_workloadnet_request_duration")
	require.NoError(t, err)
	counts := map[string]uint64{}
	for _, p := range durations.Data.(metricdata.Histogram[float64]).DataPoints {
		method, _ := p.Attributes.Value("method")
		code, _ := p.Attributes.Value("code")
		counts[method.AsString()+" "+code.AsString()] = p.Count
	}
	assert.Equal(t, uint64(2), counts["Attach OK"])
	assert.Equal(t, uint64(1), counts["Attach InvalidArgument"])
}

func TestStatus(t *testing.T) {
	n := newNode(t).start()
	n.attach(nettest.NewPod(t), "sandbox-1")
	answer, err := n.client.Status(context.Background(), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{"10.88.0.0/24", "fd00:88::/64"}, answer.Prefixes)
	assert.Equal(t, uint32(1), answer.Attachments)
	assert.Equal(t, uint32(252), answer.Free)
}

// TestShutdownBeforeServe: as when the next component fails to start. On one
// processor the goroutine that serves has not begun by then.
func TestShutdownBeforeServe(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	socket := filepath.Join(t.TempDir(), "wn.sock")
	for range 10 {
		telemetry, err := metadata.NewTelemetryBuilder(componenttest.NewNopTelemetrySettings())
		require.NoError(t, err)
		e := &workloadnetExtension{cfg: &Config{Endpoint: unixScheme + socket}, logger: zap.NewNop(), telemetry: telemetry}
		e.service = newService(e.logger, nil, telemetry, func(event *componentstatus.Event) { t.Error(event.Err()) })
		e.listener, err = listen(socket)
		require.NoError(t, err)
		e.serve()
		require.NoError(t, e.Shutdown(t.Context()))
		require.NoFileExists(t, socket)
	}
}

func TestStartFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, n *node)
		want    string
	}{
		{"no identity extension", func(_ *testing.T, n *node) { n.without = identityID }, `identity: there is no extension "podidentity": add it to extensions and to service::extensions`},
		{"no storage extension", func(_ *testing.T, n *node) { n.without = storageID }, `storage: there is no extension "file_storage"`},
		{"an identity extension that is something else", func(_ *testing.T, n *node) { n.cfg.Identity = storageID }, `identity: the extension "file_storage" is not a podidentity extension`},
		{"a storage extension that is something else", func(_ *testing.T, n *node) { n.cfg.Storage = identityID }, `storage: the extension "podidentity" is not a storage extension`},
		{"a socket that can't be made", func(t *testing.T, n *node) {
			require.NoError(t, os.WriteFile(filepath.Join(n.dir, "run"), nil, 0o600))
		}, `endpoint: "unix://`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			tt.prepare(t, n)
			err := n.tryStart()
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// The test process can't do without its capabilities, but one of its threads can.
func TestCapabilities(t *testing.T) {
	nettest.NeedNode(t)
	require.NoError(t, checkCapabilities())
	err := errors.New("not run")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err = unix.Capget(&header, &data[0]); err != nil {
			return
		}
		data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
		if err = unix.Capset(&header, &data[0]); err == nil {
			err = checkCapabilities()
		}
	}()
	<-done
	assert.EqualError(t, err, "the collector lacks CAP_NET_ADMIN (to make links and routes): run it as root, or with these capabilities")
}
