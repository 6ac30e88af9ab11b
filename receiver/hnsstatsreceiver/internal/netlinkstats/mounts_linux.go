// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// nsMount is a network namespace that is mounted on a file, as container
// runtimes and "ip netns" do.
type nsMount struct {
	inode uint64
	path  string
}

// parseMounts finds the network namespaces in a mountinfo file: lines of the
// file system nsfs with a root of "net:[inode]" (proc_pid_mountinfo(5); the
// root is made by ns_dname, fs/nsfs.c). A namespace that is mounted twice is
// there twice.
func parseMounts(mountinfo []byte) []nsMount {
	var found []nsMount
	for len(mountinfo) > 0 {
		var line []byte
		line, mountinfo, _ = bytes.Cut(mountinfo, []byte("\n"))
		if m, ok := parseMount(line); ok {
			found = append(found, m)
		}
	}
	return found
}

func parseMount(line []byte) (nsMount, bool) {
	// 36 35 0:4 net:[4026532570] /run/netns/a rw shared:5 - nsfs nsfs rw
	const root, mountPoint = 3, 4
	before, after, ok := bytes.Cut(line, []byte(" - "))
	if !ok || !bytes.HasPrefix(after, []byte("nsfs ")) {
		return nsMount{}, false
	}
	fields := bytes.Fields(before)
	if len(fields) <= mountPoint {
		return nsMount{}, false
	}
	number, ok := bytes.CutPrefix(fields[root], []byte("net:["))
	if !ok {
		return nsMount{}, false
	}
	number, ok = bytes.CutSuffix(number, []byte("]"))
	if !ok {
		return nsMount{}, false
	}
	inode, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return nsMount{}, false
	}
	return nsMount{inode: inode, path: unescape(fields[mountPoint])}, true
}

// unescape undoes what mangle_path does to a path in mountinfo: space, tab,
// newline and backslash are a backslash and three octal digits (fs/seq_file.c).
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) {
			if c, err := strconv.ParseUint(string(b[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(c))
				i += 3
				continue
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}

// mounts are the network namespaces that this process sees mounted, which is
// the only way from a namespace's id to its inode without looking at
// processes.
type mounts struct {
	// fd is of mountinfo. It is kept from the runtime's poller, which would take
	// the news of a change before changed asks for it.
	fd    int
	own   nsFile              // our own namespace
	known map[uint64]struct{} // inodes of the namespaces that the inventory has
	buf   []byte
}

// nsFile is an open network namespace.
type nsFile struct {
	fd    int
	inode uint64
}

// openMounts takes over own, the open namespace that is ours, if it succeeds.
func openMounts(own int) (mounts, error) {
	const mountinfo = "/proc/self/mountinfo"
	var st unix.Stat_t
	if err := unix.Fstat(own, &st); err != nil {
		return mounts{}, fmt.Errorf("look at our own network namespace: %w", err)
	}
	fd, err := unix.Open(mountinfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mounts{}, fmt.Errorf("open %s: %w", mountinfo, err)
	}
	return mounts{
		fd:    fd,
		own:   nsFile{fd: own, inode: st.Ino},
		known: map[uint64]struct{}{},
	}, nil
}

func (m *mounts) close() error {
	return errors.Join(unix.Close(m.fd), unix.Close(m.own.fd))
}

// forget is to be told of a namespace that is gone, as its inode can be another
// one's, or that is to be looked for again. The kernel gives the id up first, then
// the inode (cleanup_net, net/core/net_namespace.c), so whoever has a known inode
// is who it was.
func (m *mounts) forget(inode uint64) { delete(m.known, inode) }

// changed reports whether something was mounted or unmounted since it was
// opened or last asked (mounts_poll, fs/proc_namespace.c).
func (m *mounts) changed() bool {
	fds := [...]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds[:], 0)
	return n > 0 || err != nil
}

// each calls visit with an open file for every namespace that is mounted, is
// not our own and is not known yet. What cannot be opened, or is something else
// by now, is left out: it may be another container's mount, or gone.
func (m *mounts) each(visit func(mount nsMount, fd int)) error {
	if err := m.readAll(); err != nil {
		return fmt.Errorf("read /proc/self/mountinfo: %w", err)
	}
	for _, mount := range parseMounts(m.buf) {
		if _, ok := m.known[mount.inode]; ok || mount.inode == m.own.inode {
			continue
		}
		fd, err := mount.open()
		if err != nil {
			continue
		}
		visit(mount, fd)
		unix.Close(fd)
	}
	return nil
}

func (m *mounts) readAll() error {
	if _, err := unix.Seek(m.fd, 0, io.SeekStart); err != nil {
		return err
	}
	m.buf = m.buf[:0]
	for {
		m.buf = slices.Grow(m.buf, 4096)
		n, err := unix.Read(m.fd, m.buf[len(m.buf):cap(m.buf)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return nil
		default:
			m.buf = m.buf[:len(m.buf)+n]
		}
	}
}

// open opens a mounted namespace, if it is still the one.
func (m nsMount) open() (fd int, err error) {
	if fd, err = unix.Open(m.path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return -1, fmt.Errorf("open %s: %w", m.path, err)
	}
	var fs unix.Statfs_t
	var st unix.Stat_t
	err = errors.Join(unix.Fstatfs(fd, &fs), unix.Fstat(fd, &st))
	if err == nil && (int64(fs.Type) != unix.NSFS_MAGIC || st.Ino != m.inode) {
		err = fmt.Errorf("%s is network namespace %d no longer", m.path, m.inode)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
