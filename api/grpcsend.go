package api

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// waitFrom is the size in bytes from which a reply keeps its call until the
// client has taken it. What is smaller fits the window that every client gives.
const waitFrom = 16 << 10

// reply sends the message of a call. A large one stays charged until the
// transport has sent it; a client that does not read it loses the connection.
func (s *Server) reply(ctx context.Context, stream grpc.ServerStream, out proto.Message) error {
	size := int64(proto.Size(out))
	if size > maxReply {
		return errReplyTooLarge()
	}
	if size < waitFrom {
		return stream.SendMsg(out)
	}
	memory := exchangeIn(ctx).memory
	if err := memory.Grow(size); err != nil {
		return err
	}
	memory.ShrinkTo(size)
	// A compressed copy would be held where nobody sees when it is sent.
	_ = grpc.SetSendCompressor(stream.Context(), encoding.Identity)
	sent := &sending{message: out, freed: make(chan struct{})}
	start := time.Now()
	if err := stream.SendMsg(sent); err != nil {
		return err
	}
	late := time.NewTimer(time.Until(s.paced(start, size)))
	defer late.Stop()
	select {
	case <-sent.freed:
		return nil
	case <-stream.Context().Done(): // the client left
		return stream.Context().Err()
	case <-late.C:
		s.conns.cut(remoteOf(ctx))
		return fmt.Errorf("the client did not read the reply of %d bytes: %w", size, context.DeadlineExceeded)
	}
}

// sending is a message that tells when the transport holds it no longer. It is
// the buffer pool of its own bytes, which the transport gives back.
type sending struct {
	message proto.Message
	once    sync.Once
	freed   chan struct{}
}

func (m *sending) marshal() (mem.BufferSlice, error) {
	data, err := proto.Marshal(m.message)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&data, m)}, nil
}

// Get implements mem.BufferPool.
func (m *sending) Get(length int) *[]byte {
	data := make([]byte, length)
	return &data
}

// Put implements mem.BufferPool.
func (m *sending) Put(*[]byte) { m.once.Do(func() { close(m.freed) }) }

// connections are those of gRPC clients, by remote address, so that one can be
// closed: gRPC has no call that ends a stream whose client does not read.
type connections struct {
	mu   sync.Mutex
	open map[string]net.Conn
}

// listen has l's connections recorded.
func (c *connections) listen(l net.Listener) net.Listener { return &recordedListener{l, c} }

func (c *connections) cut(remote string) {
	c.mu.Lock()
	conn := c.open[remote]
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

type recordedListener struct {
	net.Listener
	conns *connections
}

// Accept implements net.Listener.
func (l *recordedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conns.mu.Lock()
	defer l.conns.mu.Unlock()
	if l.conns.open == nil {
		l.conns.open = map[string]net.Conn{}
	}
	recorded := &recordedConn{conn, l.conns}
	l.conns.open[conn.RemoteAddr().String()] = recorded
	return recorded, nil
}

type recordedConn struct {
	net.Conn
	conns *connections
}

// Close implements net.Conn.
func (c *recordedConn) Close() error {
	c.conns.mu.Lock()
	if remote := c.RemoteAddr().String(); c.conns.open[remote] == net.Conn(c) {
		delete(c.conns.open, remote)
	}
	c.conns.mu.Unlock()
	return c.Conn.Close()
}
