// Package proxy is a TCP proxy with faults, for tests of what a network does between a tier and its Kafka or database: it holds
// what is sent, loses responses and cuts connections.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Proxy forwards connections to one target. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu sync.Mutex
	// changed wakes those who wait for another state.
	changed *sync.Cond
	state   state
	links   map[*link]bool
	closed  bool
}

// state is what happens to the bytes of a connection.
type state int

const (
	forward state = iota
	hold
	loseResponses
)

// link is a connection through the proxy.
type link struct {
	client, target net.Conn
	// half is set for a connection whose bytes stay held until it ends.
	half bool
}

// Start starts a proxy to the target, a host and port, on a free port of the loopback.
func Start(ctx context.Context, target string) (*Proxy, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy to %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: l, links: map[*link]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	return p, nil
}

// Dial connects to the target through the proxy, whatever address is asked for: brokers advertise their own.
func (p *Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.listener.Addr().String())
}

// Hold keeps the bytes of all connections, present and future, in both directions, until Forward: a network that swallows packets. What a
// client had sent arrives then, even if the client has closed its connection meanwhile.
func (p *Proxy) Hold() { p.set(hold) }

// HoldPresent keeps the bytes of the present connections until they end. Connections that come later are not affected.
func (p *Proxy) HoldPresent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.half = true
	}
}

// LoseResponses lets requests arrive and cuts a connection when the first byte of a response comes back, until Forward.
func (p *Proxy) LoseResponses() { p.set(loseResponses) }

// Forward ends what was begun by Hold or LoseResponses.
func (p *Proxy) Forward() { p.set(forward) }

func (p *Proxy) set(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	p.changed.Broadcast()
}

// Close cuts all connections and returns when none is left.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.work.Wait()
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.target.Close()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	var d net.Dialer
	target, err := d.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return
	}
	l := &link{client: client, target: target}
	p.mu.Lock()
	p.links[l] = true
	closed := p.closed
	p.mu.Unlock()
	defer func() {
		l.cut()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if closed {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(l, target, client, false) })
	both.Go(func() { p.copy(l, client, target, true) })
	both.Wait()
}

// copy forwards what from sends, and that it ended.
func (p *Proxy) copy(l *link, to, from net.Conn, responses bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !p.await(l, responses) {
			l.cut()
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil && !responses {
				return
			}
		}
		if err != nil {
			if tcp, ok := to.(*net.TCPConn); ok && !errors.Is(err, net.ErrClosed) {
				_ = tcp.CloseWrite()
			}
			return
		}
	}
}

// await waits until bytes may go on. It returns false if the connection is to be cut.
func (p *Proxy) await(l *link, responses bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.state == hold || l.half) && !p.closed {
		p.changed.Wait()
	}
	return !p.closed && (!responses || p.state != loseResponses)
}
