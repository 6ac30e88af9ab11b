// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// maxRequest bounds a request: Kubernetes allows a pod 256 KiB of annotations.
	maxRequest = 1 << 20
	// maxStreams bounds the calls at once on one connection.
	maxStreams = 256
)

func newServer(s *service, logger *zap.Logger) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(&peerCredentials{TransportCredentials: insecure.NewCredentials(), own: uint32(os.Geteuid()), logger: logger}),
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(10*time.Second),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
			defer s.measure(ctx, info.FullMethod, time.Now(), &err)
			defer s.recover(info.FullMethod, &err)
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer s.measure(stream.Context(), info.FullMethod, time.Now(), &err)
			defer s.recover(info.FullMethod, &err)
			return handler(srv, stream)
		}),
	)
}

// measure counts a call that has ended.
func (s *service) measure(ctx context.Context, method string, begin time.Time, err *error) {
	s.telemetry.ExtensionWorkloadnetRequestDuration.Record(ctx, time.Since(begin).Seconds(), metric.WithAttributeSet(attribute.NewSet(
		attribute.String("method", path.Base(method)), attribute.String("code", status.Code(*err).String()))))
}

// recover turns a panic into an error: a defect must not end the collector.
func (s *service) recover(method string, err *error) {
	if r := recover(); r != nil {
		s.logger.Error("A request failed by a defect of workloadnet", zap.String("method", method), zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
		*err = status.Errorf(codes.Internal, "a defect of workloadnet: %v", r)
	}
}

// peerCredentials lets only root and the collector's own user in.
type peerCredentials struct {
	credentials.TransportCredentials
	own    uint32
	logger *zap.Logger

	mu     sync.Mutex
	logged map[uint32]bool // users that were refused; at most maxLogged
}

const maxLogged = 16

// ServerHandshake implements credentials.TransportCredentials. gRPC closes the
// connection on an error.
func (p *peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	peer, err := peerOf(conn)
	if err != nil {
		return nil, nil, err
	}
	if peer.Uid != 0 && peer.Uid != p.own {
		p.logRefused(peer)
		return nil, nil, fmt.Errorf("user %d may not connect", peer.Uid)
	}
	return p.TransportCredentials.ServerHandshake(conn)
}

func peerOf(conn net.Conn) (peer *unix.Ucred, err error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("not a unix socket: %T", conn)
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return nil, e
	}
	return peer, err
}

// logRefused logs each user once.
func (p *peerCredentials) logRefused(peer *unix.Ucred) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logged[peer.Uid] || len(p.logged) == maxLogged {
		return
	}
	if p.logged == nil {
		p.logged = map[uint32]bool{}
	}
	p.logged[peer.Uid] = true
	p.logger.Warn("Refused a connection: only root and the collector's own user may use the service",
		zap.Uint32("uid", peer.Uid), zap.Int32("pid", peer.Pid))
}

// socketListener is a listener on a socket that no other collector replaces.
type socketListener struct {
	*net.UnixListener
	lock *os.File
}

// Close also removes the socket.
func (l *socketListener) Close() error {
	// The lock is the last to go: until then nobody makes a new socket.
	return errors.Join(l.UnixListener.Close(), l.lock.Close())
}

// listen makes the socket. One that is left over from a process that is gone is
// replaced; anything else in its place is left alone.
func listen(socket string) (*socketListener, error) {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	lock, err := lockSocket(socket)
	if err != nil {
		return nil, err
	}
	listener, err := listenLocked(socket)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &socketListener{listener, lock}, nil
}

// checkDirectory refuses a directory where others could put their own socket, if not
// now then while the collector is away: clients would take it for the collector's.
func checkDirectory(dir string) error {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for _, dir := range []string{dir, resolved} {
		// A sticky bit keeps others from moving away what is not theirs, which will
		// do for the directories above, but not from making a socket.
		err := checkWriters(dir, 0)
		for err == nil && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			err = checkWriters(dir, os.ModeSticky)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkWriters refuses a directory that others may write to, unless it has that mode.
func checkWriters(dir string, unless os.FileMode) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&unless == 0 {
		return fmt.Errorf("other users may write to %s (mode %#o): they could put their own socket there; chmod go-w it, or take another directory", dir, mode.Perm())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, who could put another socket there; chown it to the collector's user", dir, stat.Uid)
	}
	return nil
}

// lockSocket keeps two collectors that start at once from both taking a socket for
// a stale one. The lock ends with the process.
func lockSocket(socket string) (*os.File, error) {
	lock, err := os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another process serves %s: is a second collector running?", socket)
	default:
		err = fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return nil, errors.Join(err, lock.Close())
}

func listenLocked(socket string) (*net.UnixListener, error) {
	if err := removeStale(socket); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Until here the umask may leave it open to others, whom the server refuses
	// by their credentials all the same.
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

func removeStale(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", socket)
	}
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("another process serves %s: is a second collector running?", socket), conn.Close())
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("find out whether %s is in use: %w", socket, err)
	}
	return os.Remove(socket)
}
