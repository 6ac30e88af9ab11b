// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// Config is what a Source can be told.
type Config struct {
	// TCP asks for the TCP totals of each pod's network namespace. They can be
	// read only from inside, which needs CAP_SYS_ADMIN and a visible mount of
	// the namespace, and costs more than all the rest.
	TCP bool
}

// Source reads the endpoints of the node whose network namespace it is started
// in. Its methods are for one goroutine at a time; what it visits with is valid
// during the visit only, but for the Endpoint, which may be kept.
type Source struct {
	cfg    Config
	logger *zap.Logger
	buffer int // of the socket for notifications, in bytes
	// counted is called between the counters and the second look at the
	// notifications. Tests change things then.
	counted func()

	conn    *conn
	monitor *monitor
	inv     *inventory

	events []event
	read   []*port // those with counters of this Read, in the kernel's order
	totals totals
}

// totals is what one endpoint is visited with, kept so that a visit allocates
// nothing.
type totals struct {
	counters endpoint.Counters
	errors   [endpoint.NumDirections]uint64
	tcp      endpoint.TCP
}

var _ endpoint.Source = (*Source)(nil)

// New returns a Source that is not started.
func New(cfg Config, logger *zap.Logger) *Source {
	return &Source{cfg: cfg, logger: logger, buffer: receiveBuffer, counted: func() {}}
}

// Start subscribes to the kernel's notifications and reads what is there. Its
// errors name the capability that is missing.
func (s *Source) Start(ctx context.Context) error {
	if err := s.open(); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.settle(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	s.announce()
	return nil
}

// announce says what was found, so that an operator sees at once when the
// collector looks from the wrong place.
func (s *Source) announce() {
	endpoints, unmounted := 0, 0
	for _, n := range s.inv.spaces {
		for _, p := range n.ports {
			if !s.isReadable(p) {
				continue
			}
			endpoints++
			if n.inode == 0 {
				unmounted++
			}
		}
	}
	s.logger.Info("Found the node's pod endpoints", zap.Int("endpoints", endpoints))
	if unmounted > 0 {
		s.logger.Info("The collector does not see where the network namespaces of some endpoints are mounted: "+
			"they have no linux.netns.inode; in a container, mount the node's /run/netns with the propagation HostToContainer",
			zap.Int("endpoints", unmounted))
	}
}

func (s *Source) open() (err error) {
	if s.conn, err = dial(); err != nil {
		return err
	}
	mounts, self, err := s.ownNamespace()
	if err != nil {
		return err
	}
	s.inv = newInventory(s.conn, mounts, self)
	if s.monitor, err = listen(s.buffer); err != nil {
		return err
	}
	if s.cfg.TCP {
		if err := s.inv.mounts.enterOwn(); err != nil {
			return fmt.Errorf("enter a network namespace for its TCP totals (netlink.tcp.enabled): %w: "+
				"run the collector as root or give it CAP_SYS_ADMIN", err)
		}
	}
	if !s.monitor.everywhere {
		s.logger.Warn("CAP_NET_BROADCAST is missing, so the kernel does not announce what changes inside the pods: "+
			"their links and addresses are read anew on every collection, which costs some 50 µs a pod; "+
			"give the collector the capability (systemd: AmbientCapabilities, Kubernetes: securityContext.capabilities.add)",
			zap.Error(unix.EPERM))
	}
	return nil
}

// ownNamespace makes sure that our namespace has an id, by which links in
// other namespaces refer to it, and that we may look through such ids.
func (s *Source) ownNamespace() (m mounts, self int32, err error) {
	const path = "/proc/thread-self/ns/net"
	own, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mounts{}, noNSID, fmt.Errorf("open our own network namespace, %s: %w", path, err)
	}
	if m, err = openMounts(own); err != nil {
		return mounts{}, noNSID, errors.Join(err, unix.Close(own))
	}
	if self, err = s.conn.assignedNSID(own); err != nil {
		return mounts{}, noNSID, errors.Join(fmt.Errorf("give our network namespace an id: %w", explain(err)), m.close())
	}
	if _, _, err := look(s.conn, self); err != nil {
		return mounts{}, noNSID, errors.Join(fmt.Errorf("look through the id of a network namespace: %w", explain(err)), m.close())
	}
	return m, self, nil
}

// explain adds to an errno what it means here and what to do about it.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: CAP_NET_ADMIN is missing in the user namespace that owns the network namespace: "+
			"run the collector as root or give it the capability "+
			"(systemd: AmbientCapabilities=CAP_NET_ADMIN CAP_NET_BROADCAST, "+
			"Kubernetes: securityContext.capabilities.add [NET_ADMIN, NET_BROADCAST], "+
			"a file: setcap cap_net_admin,cap_net_broadcast+ep)", err)
	}
	return err
}

// Close ends the goroutine and closes the sockets. It is safe twice and
// without Start.
func (s *Source) Close() error {
	var errs []error
	if s.monitor != nil {
		errs = append(errs, s.monitor.close())
		s.monitor = nil
	}
	if s.inv != nil {
		errs = append(errs, s.inv.mounts.close())
		s.inv = nil
	}
	if s.conn != nil {
		errs = append(errs, s.conn.close())
		s.conn = nil
	}
	return errors.Join(errs...)
}

// settleRounds bounds how long changes are followed in one Read.
const settleRounds = 10

// settle brings the inventory to the state of now: it replays what was
// announced and asks again for what that made stale, until nothing was
// announced meanwhile. If it ends before, because changes do not stop coming,
// what they touch is left stale.
func (s *Source) settle(ctx context.Context) error {
	for range settleRounds {
		s.replay()
		if !s.inv.isStale() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.inv.refresh(); err != nil {
			return err
		}
	}
	s.replay()
	if s.inv.staleAll {
		return errors.New("notifications of the kernel are lost faster than links and addresses can be read anew")
	}
	return nil
}

func (s *Source) replay() {
	events, lost := s.monitor.take(s.events)
	s.events = events
	if lost {
		s.logger.Warn("Notifications of the kernel were lost; links and addresses are read anew")
		s.inv.staleAll = true
	}
	s.inv.apply(events)
}

// Read visits every endpoint. It takes the counters between two looks at the
// notifications: only a port that was there before the counters were taken,
// and is still there after, is what they are of.
func (s *Source) Read(ctx context.Context, visit func(*endpoint.Endpoint, *endpoint.Counters)) error {
	if s.conn == nil {
		return errors.New("the netlink source is not started")
	}
	s.inv.reconsider(!s.monitor.everywhere)
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.inv.epoch++
	if err := s.readCounters(); err != nil {
		return err
	}
	s.counted()
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.reportTCP()
	var errs []error
	for _, p := range s.read {
		if !s.isReadable(p) {
			continue
		}
		if err := s.problem(p); err != nil {
			errs = append(errs, &endpoint.Error{Endpoint: p.name(), ID: p.id, Err: err})
			continue
		}
		visit(p.endpoint, s.totals.of(p))
	}
	return errors.Join(append(errs, s.missing()...)...)
}

// isReadable reports whether a port is a pod's that something could be said of.
func (s *Source) isReadable(p *port) bool {
	if p.gone || p.space.dying || s.inv.isOurs(p.space) {
		return false
	}
	// Without an address and an inode nothing could find the pod.
	return p.endpoint == nil || p.space.inode != 0 || len(p.endpoint.Addresses) > 0
}

// problem says why a port cannot be visited, nil if it can.
func (s *Source) problem(p *port) error {
	_, stale := s.inv.staleSpaces[p.space.id]
	switch {
	case p.err != nil:
		return p.err
	case p.space.err != nil:
		return p.space.err
	case stale:
		return errors.New("its network namespace changes faster than it can be read")
	case p.endpoint == nil:
		return fmt.Errorf("its other end, link %d of network namespace %s, is not there", p.index, p.space)
	}
	return nil
}

// missing reports the host ends that the kernel's answer lacked.
func (s *Source) missing() []error {
	var errs []error
	for _, p := range s.inv.hosts {
		if p.read != s.inv.epoch && p.born < s.inv.epoch && s.isReadable(p) {
			errs = append(errs, &endpoint.Error{Endpoint: p.name(), ID: p.id, Err: errors.New("the kernel's answer lacks its counters")})
		}
	}
	return errs
}

// readCounters takes the counters of all ports.
func (s *Source) readCounters() error {
	s.read = s.read[:0]
	inv := s.inv
	err := s.conn.stats(func(index int32, c counters) {
		p := inv.hosts[index]
		if p == nil {
			return
		}
		p.counters, p.err = c, nil
		s.markRead(p)
	})
	if err != nil {
		return fmt.Errorf("read the counters of all links: %w", err)
	}
	for p := range inv.insides {
		if inv.isOurs(p.space) {
			continue
		}
		l, err := s.conn.link(p.space.id, p.index)
		if errors.Is(err, unix.EINVAL) {
			p.space.dying = true
			continue
		}
		p.err = nil
		if err != nil {
			p.err = fmt.Errorf("read the counters: %w", explain(err))
		}
		p.counters = l.counters
		s.markRead(p)
	}
	if s.cfg.TCP {
		s.readTCP()
	}
	return nil
}

func (s *Source) markRead(p *port) {
	if p.read != s.inv.epoch {
		p.read = s.inv.epoch
		s.read = append(s.read, p)
	}
}

// of fills in the counters of a port, as its pod counts.
func (v *totals) of(p *port) *endpoint.Counters {
	const receive, transmit = endpoint.Receive, endpoint.Transmit
	c := p.counters
	if !p.inside { // what the host's end receives, the pod has transmitted
		c.rxBytes, c.txBytes = c.txBytes, c.rxBytes
		c.rxPackets, c.txPackets = c.txPackets, c.rxPackets
		c.rxDropped, c.txDropped = c.txDropped, c.rxDropped
		c.rxErrors, c.txErrors = c.txErrors, c.rxErrors
	}
	v.counters = endpoint.Counters{Errors: &v.errors}
	v.counters.Bytes[receive], v.counters.Bytes[transmit] = c.rxBytes, c.txBytes
	v.counters.Packets[receive], v.counters.Packets[transmit] = c.rxPackets, c.txPackets
	v.counters.Dropped[receive], v.counters.Dropped[transmit] = c.rxDropped, c.txDropped
	v.errors[receive], v.errors[transmit] = c.rxErrors, c.txErrors
	if tcp, ok := p.space.tellTCP(p); ok {
		v.tcp = tcp.endpoint()
		v.counters.TCP = &v.tcp
	}
	return &v.counters
}

// reconsider is to be called before each Read: it marks what events do not
// tell of. all is for a monitor that does not hear of other namespaces.
func (inv *inventory) reconsider(all bool) {
	if inv.mounts.changed() {
		inv.staleMounts = true
	}
	inv.staleAll = inv.staleAll || inv.incomplete
	for _, n := range inv.spaces {
		if all || n.err != nil || n.dying {
			inv.stale(n)
		}
	}
	for _, p := range inv.hosts {
		if p.endpoint == nil {
			inv.stale(p.space)
		}
	}
}
