package grpcserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connections tracks the connections of clients by remote address, so that one can
// be closed: gRPC has no call that ends a stream whose client does not read.
type connections struct {
	limit int
	mu    sync.Mutex
	open  map[string]*recordedConn
}

// listen returns a listener that records the connections of l.
func (c *connections) listen(l net.Listener) net.Listener { return &recordedListener{l, c} }

// of returns the connection of a remote address, nil when it is closed.
func (c *connections) of(remote string) *recordedConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[remote]
}

// add records a connection, unless there are too many.
func (c *connections) add(conn net.Conn) (*recordedConn, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.limit {
		return nil, false
	}
	if c.open == nil {
		c.open = map[string]*recordedConn{}
	}
	recorded := &recordedConn{Conn: conn, conns: c, writing: instant{base: time.Now()}}
	c.open[conn.RemoteAddr().String()] = recorded
	return recorded, true
}

type recordedListener struct {
	net.Listener
	conns *connections
}

// Accept implements net.Listener.
func (l *recordedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if recorded, ok := l.conns.add(conn); ok {
			return recorded, nil
		}
		_ = conn.Close()
	}
}

type recordedConn struct {
	net.Conn
	conns   *connections
	calls   atomic.Int64 // in flight
	late    atomic.Int64 // those of calls whose client has not read the reply in time
	writing instant      // since when a write blocks; not set: none does
}

// begin counts a call; the caller ends it.
func (c *recordedConn) begin() (end func()) {
	if c == nil {
		return func() {}
	}
	c.calls.Add(1)
	return func() { c.calls.Add(-1) }
}

// blocked reports whether the peer has read nothing for the timeout.
func (c *recordedConn) blocked(timeout time.Duration) bool {
	since, writes := c.writing.get()
	return writes && time.Since(since) > timeout
}

func (c *recordedConn) cut() {
	if c != nil {
		_ = c.Close()
	}
}

// Write implements net.Conn.
func (c *recordedConn) Write(data []byte) (int, error) {
	c.writing.set()
	defer c.writing.clear()
	return c.Conn.Write(data)
}

// Close implements net.Conn.
func (c *recordedConn) Close() error {
	c.conns.mu.Lock()
	if remote := c.RemoteAddr().String(); c.conns.open[remote] == c {
		delete(c.conns.open, remote)
	}
	c.conns.mu.Unlock()
	return c.Conn.Close()
}
