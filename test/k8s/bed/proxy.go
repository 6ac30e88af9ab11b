// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy passes TCP connections on and breaks them when it is told to.
type Proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	conns  map[*net.TCPConn]struct{}
	down   bool
	closed bool
	wg     sync.WaitGroup
}

// NewProxy starts a proxy before target that ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, conns: map[*net.TCPConn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut resets every connection and returns how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns)
	for c := range p.conns {
		_ = c.SetLinger(0) // a reset instead of an orderly end
		_ = c.Close()
	}
	clear(p.conns)
	return n / 2
}

// SetDown makes the proxy reset new connections too, until it is set up again.
func (p *Proxy) SetDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.Cut()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	defer client.Close()
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.SetLinger(0)
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	if !p.keep(server) {
		return
	}
	defer p.drop(server)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(server, client) // however it ends, so does the other way
		_ = server.Close()
		_ = client.Close()
	})
	_, _ = io.Copy(client, server)
	_ = server.Close()
	_ = client.Close()
	wg.Wait()
}

// keep remembers a connection to cut, or resets it at once.
func (p *Proxy) keep(c *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down || p.closed {
		_ = c.SetLinger(0)
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
