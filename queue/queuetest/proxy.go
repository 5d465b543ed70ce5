package queuetest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Network is what a proxy does with connections.
type Network int

// What a network may do.
const (
	// Passing forwards everything.
	Passing Network = iota
	// Refusing closes all connections, and refuses new ones.
	Refusing
	// Swallowing keeps connections open, accepts new ones, and drops everything, in
	// both directions: half-open connections.
	Swallowing
	// Slow forwards everything, each part after slowDelay, one after the other.
	Slow
)

// slowDelay is that of a slow network in one direction; a part has up to 64 KiB.
const slowDelay = 200 * time.Millisecond

// forwards reports whether the network forwards.
func (n Network) forwards() bool { return n == Passing || n == Slow }

// Proxy is a network between one end that dials and one that listens.
type Proxy struct {
	t        testing.TB
	addr     string // where it listens
	target   string
	done     sync.WaitGroup
	mu       sync.Mutex
	network  Network
	listener net.Listener // nil while refusing
	pairs    map[*pair]struct{}
}

// pair is a connection and its continuation, which is nil for one that was accepted while
// the network dropped everything.
type pair struct{ from, to net.Conn }

func (p *pair) close() {
	_ = p.from.Close()
	if p.to != nil {
		_ = p.to.Close()
	}
}

// StartProxy starts a proxy for an address, which need not listen yet. It ends with the
// test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, pairs: map[*pair]struct{}{}, addr: "127.0.0.1:0"}
	require.NoError(t, p.listen())
	p.addr = p.listener.Addr().String()
	t.Cleanup(func() {
		p.Set(Refusing)
		p.done.Wait()
	})
	return p
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.addr }

func (p *Proxy) connected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs) > 0
}

// Set sets the network. When it forwards again, connections that lost data are closed.
func (p *Proxy) Set(network Network) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if network == p.network {
		return
	}
	if network == Refusing && p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	if network == Refusing || p.network == Swallowing {
		for pair := range p.pairs {
			pair.close()
		}
		clear(p.pairs)
	}
	p.network = network
	if network != Refusing && p.listener == nil {
		require.NoError(p.t, p.listen())
	}
}

// listen accepts connections; the lock is held, or p is not shared yet. Its port may still
// be in use for a moment by a connection of another process.
func (p *Proxy) listen() (err error) {
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", p.addr); err == nil { //nolint:noctx // immediate
			p.listener = l
			p.done.Go(func() { p.accept(l) })
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return err
}

func (p *Proxy) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(from) })
	}
}

func (p *Proxy) serve(from net.Conn) {
	c := &pair{from: from}
	p.mu.Lock()
	network := p.network
	p.mu.Unlock()
	if network.forwards() {
		to, err := net.Dial("tcp", p.target) //nolint:noctx // on loopback
		if err != nil {
			_ = from.Close()
			return
		}
		c.to = to
	}
	p.mu.Lock()
	if p.network.forwards() != network.forwards() || p.network == Refusing { // it changed in the meantime
		p.mu.Unlock()
		c.close()
		return
	}
	p.pairs[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		c.close()
		p.mu.Lock()
		delete(p.pairs, c)
		p.mu.Unlock()
	}()
	if c.to == nil {
		_, _ = io.Copy(io.Discard, from)
		return
	}
	var back sync.WaitGroup
	back.Go(func() { p.copy(from, c.to) })
	p.copy(c.to, from)
	back.Wait()
}

// copy forwards what from sends, or drops it. While the network drops everything, not even
// the end of a connection reaches its other end.
func (p *Proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		network := p.network
		p.mu.Unlock()
		if network == Slow {
			<-time.After(slowDelay)
		}
		if network.forwards() && n > 0 {
			if _, werr := to.Write(buffer[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			if network.forwards() {
				_ = to.Close()
				_ = from.Close()
			}
			return
		}
	}
}
