package grpcserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
)

// waitFrom is the size in bytes from which a call waits until its client has
// received the reply. Smaller replies fit the window that every client grants.
const waitFrom = 16 << 10

// Reply sends the reply of a call. A large one stays charged until the transport
// has sent it; a client that does not read it loses the connection.
func (s *Server) Reply(ctx context.Context, stream grpc.ServerStream, out proto.Message) error {
	size := int64(proto.Size(out))
	if size > failure.MaxReply {
		return failure.ReplyTooLarge()
	}
	if size < waitFrom {
		return stream.SendMsg(out)
	}
	memory := exchange.From(ctx).Memory
	if err := memory.Grow(size); err != nil {
		return err
	}
	memory.ShrinkTo(size)
	sent := newSending(out)
	start := time.Now()
	if err := stream.SendMsg(sent); err != nil {
		return err
	}
	late := s.overdue(ctx, start)
	defer late.end()
	timer := time.NewTimer(time.Until(s.cfg.Settings.Deadline(start, size)))
	defer timer.Stop()
	for {
		select {
		case <-sent.freed:
			return nil
		case <-stream.Context().Done(): // the client left
			return stream.Context().Err()
		case <-timer.C:
			if !late.tolerated() {
				late.conn.cut()
				return fmt.Errorf("the client did not read the reply of %d bytes: %w", size, context.DeadlineExceeded)
			}
			timer.Reset(s.cfg.Settings.HeaderTimeout)
		}
	}
}

// overdueReply is a reply that its client may not have read in time.
type overdueReply struct {
	conn    *recordedConn
	start   time.Time
	stall   time.Duration // maximum time that a write to the connection may block
	timeout time.Duration // maximum time of the reply
	counted bool          // in conn.late
}

func (s *Server) overdue(ctx context.Context, start time.Time) *overdueReply {
	return &overdueReply{conn: s.connections.of(remoteOf(ctx)), start: start, stall: s.cfg.Settings.HeaderTimeout, timeout: s.cfg.Settings.RequestTimeout}
}

// tolerated reports whether the connection is kept although the reply is late:
// behind a proxy many clients share one connection, and one of them that does not
// read must not end the calls of the others. It is kept while other calls are in
// flight on it and its peer reads at all, for up to the request timeout.
func (l *overdueReply) tolerated() bool {
	if l.conn == nil {
		return false
	}
	if !l.counted {
		l.counted = true
		l.conn.late.Add(1)
	}
	return l.conn.calls.Load() > l.conn.late.Load() && !l.conn.blocked(l.stall) && time.Since(l.start) < l.timeout
}

func (l *overdueReply) end() {
	if l.counted {
		l.conn.late.Add(-1)
	}
}

// watch closes the connection of a small reply, whose call has ended, if the client
// does not read it.
func (s *Server) watch(ctx context.Context, m *sending) {
	late := s.overdue(ctx, time.Now())
	late.counted = true // its call is no longer in flight on the connection
	var check func()
	check = func() {
		select {
		case <-m.freed:
			return
		default:
		}
		if late.tolerated() {
			time.AfterFunc(s.cfg.Settings.HeaderTimeout, check)
			return
		}
		late.conn.cut()
	}
	m.timer = time.AfterFunc(s.cfg.Settings.HeaderTimeout, check)
}

// SendMsg implements grpc.ServerStream.
func (o *observedStream) SendMsg(message any) error {
	out, ok := message.(proto.Message)
	if !ok { // a *sending, for which Reply waits
		return o.ServerStream.SendMsg(message)
	}
	sent := newSending(out)
	o.server.watch(o.ctx, sent)
	err := o.ServerStream.SendMsg(sent)
	if err != nil || o.ServerStream.Context().Err() != nil { // the transport may drop it silently
		sent.Put(nil)
	}
	return err
}

// sending is a message that reports when the transport no longer holds it. It is
// the buffer pool of its own bytes, to which the transport returns them.
type sending struct {
	message proto.Message
	once    sync.Once
	freed   chan struct{}
	timer   *time.Timer
}

func newSending(message proto.Message) *sending {
	return &sending{message: message, freed: make(chan struct{})}
}

// pooledFrom is a size in bytes that gRPC always pools: it does not report when a
// smaller buffer is sent.
const pooledFrom = 2 << 10

func (m *sending) marshal() (mem.BufferSlice, error) {
	size := max(proto.Size(m.message), pooledFrom)
	data, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, size), m.message)
	if err != nil {
		return nil, err
	}
	m.message = nil // its bytes are what is held
	return mem.BufferSlice{mem.NewBuffer(&data, m)}, nil
}

// Get implements mem.BufferPool.
func (m *sending) Get(length int) *[]byte {
	data := make([]byte, length)
	return &data
}

// Put implements mem.BufferPool.
func (m *sending) Put(*[]byte) {
	m.once.Do(func() {
		close(m.freed)
		if m.timer != nil {
			m.timer.Stop()
		}
	})
}
