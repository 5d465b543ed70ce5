package grpcserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/internal/payload"
	"assay/rewardmodel"
)

const (
	// maxSmallMessage bounds the messages of calls without tensors in bytes: they
	// name a model at most. Callers of some of them are not authenticated.
	maxSmallMessage = 4 << 10
	// streamWindow is how many bytes of a message a client may send before it is
	// read: it is charged to each call that needs a token.
	streamWindow = 64 << 10
	// receiveStep is how many bytes of a message are requested at a time. gRPC
	// itself would open the window for all of it, and hold what arrives before it
	// is charged. It keeps each frame until the step is complete.
	receiveStep = 4 << 10
	// frameBytes is the memory that the transport needs for a frame, which may
	// carry a single byte.
	frameBytes = 64
)

// messageStream is the part of the transport of a call that reads messages. gRPC's
// own RecvMsg has one limit for all calls, and reads the whole message before it
// can be charged. Every test of a gRPC call fails if the transport no longer has
// these methods.
type messageStream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// incoming is a message that is being received.
type incoming struct {
	limit   int64
	window  int64 // charged once the message begins
	memory  *rewardmodel.Reservation
	begun   instant      // when it began; not set: not yet
	count   atomic.Int64 // bytes received
	arrived atomic.Bool  // all bytes are received; the client does not cause what follows
}

// Waiting is how long a stream waits for its next message. The zero value is for unary
// calls, which send their message with their headers.
type Waiting struct {
	Limit time.Duration   // until the message begins; 0: none
	Stop  <-chan struct{} // closed when the message is no longer wanted
}

// Receive reads the next message of a call, of up to limit bytes, into in. It waits
// until ctx ends, wait does, or the client is too slow. It returns io.EOF after the last
// message of a stream.
func (s *Server) Receive(ctx context.Context, stream grpc.ServerStream, in proto.Message, limit int64, wait Waiting) error {
	transport, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(messageStream)
	if !ok {
		return errors.New("the transport of gRPC has no message stream")
	}
	x := exchange.From(ctx)
	m := &incoming{limit: limit, memory: x.Memory, begun: instant{base: time.Now()}}
	var idle <-chan time.Time
	if wait.Stop == nil {
		m.begun.set()
	} else {
		m.window = streamWindow
	}
	if wait.Limit > 0 {
		timer := time.NewTimer(wait.Limit)
		defer timer.Stop()
		idle = timer.C
	}
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends with the call at the latest
		data, err := m.read(transport)
		done <- result{data, err}
	}()
	tick := time.NewTicker(min(time.Second, s.cfg.Settings.HeaderTimeout))
	defer tick.Stop()
	for {
		select {
		case r := <-done:
			switch {
			case r.err != nil && ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(r.err, io.ErrUnexpectedEOF), wait.Stop == nil && errors.Is(r.err, io.EOF):
				return failure.Invalid("", "the call ends before its message does; send a complete message")
			case r.err != nil:
				return r.err
			}
			x.BytesIn += int64(len(r.data))
			return unmarshal(r.data, in, x)
		case <-tick.C:
			begun, receiving := m.begun.get()
			if count := m.count.Load(); receiving && !m.arrived.Load() && time.Now().After(s.cfg.Settings.Deadline(begun, count)) {
				return failure.TooSlow(count, s.cfg.Settings.MinRate)
			}
		case <-idle:
			if _, receiving := m.begun.get(); !receiving {
				return s.idleStream(wait.Limit)
			}
		case <-ctx.Done():
			return fmt.Errorf("the message did not arrive: %w", ctx.Err())
		case <-wait.Stop:
			return failure.ErrDraining
		}
	}
}

// read returns one message, decompressed.
func (m *incoming) read(from messageStream) ([]byte, error) {
	var header [5]byte
	if err := from.ReadMessageHeader(header[:]); err != nil {
		return nil, err
	}
	m.begun.setOnce()
	if err := m.memory.Grow(m.window); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(header[1:]))
	if size > m.limit {
		return nil, errMessageTooLarge(size, m.limit)
	}
	data, err := m.readBytes(from, size)
	m.arrived.Store(true)
	if err != nil || header[0] == 0 {
		return data, err
	}
	if name := from.RecvCompress(); name != "gzip" {
		return nil, status.Errorf(codes.Unimplemented, "a message is compressed with %.40q; use gzip or none", name)
	}
	return m.decompress(data)
}

func (m *incoming) readBytes(from messageStream, size int64) (data []byte, err error) {
	frames := frameBytes * min(size, receiveStep)
	if err := m.memory.Grow(frames); err != nil { // what the transport holds in the meantime
		return nil, err
	}
	defer m.memory.Shrink(frames)
	for left := size; left > 0; {
		n := min(left, receiveStep)
		if need := int64(len(data)) + n; need > int64(cap(data)) {
			if data, err = payload.Grow(data, min(need+need/4, size), m.memory); err != nil {
				return nil, err
			}
		}
		part, err := from.Read(int(n))
		if err != nil {
			return nil, err
		}
		for _, b := range part {
			data = append(data, b.ReadOnlyData()...)
		}
		part.Free()
		left -= n
		m.count.Add(n)
	}
	return data, nil
}

func (m *incoming) decompress(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, failure.Invalid("", "the message is not gzip: %v", err)
	}
	plain, err := payload.ReadAll(z, m.limit, 0, m.memory, failure.BodyTooLarge(m.limit))
	m.memory.Shrink(int64(cap(data)))
	var known *failure.Error
	var overloaded *rewardmodel.OverloadedError
	var input *rewardmodel.InputError
	switch {
	case err == nil, errors.As(err, &overloaded), errors.As(err, &input):
		return plain, err
	case errors.As(err, &known):
		return nil, errMessageTooLarge(m.limit+1, m.limit)
	}
	return nil, failure.Invalid("", "the message is truncated or corrupt gzip: %v", err)
}

func errMessageTooLarge(size, limit int64) error {
	return failure.TooLarge("", "the message has %d bytes or more, and the limit of this call is %d; send fewer texts per call, or raise --max-body", size, limit)
}

// unmarshal charges the memory of a decoded message, and decodes it.
func unmarshal(data []byte, in proto.Message, x *exchange.Exchange) error {
	fields, err := CountFields(data, in.ProtoReflect().Descriptor(), maxFields(x.Limits().MaxResponses()))
	if err != nil {
		return err
	}
	// Its bytes twice, as messages and as texts.
	if err := x.Memory.Grow(2*int64(len(data)) + fieldBytes*int64(fields)); err != nil {
		return err
	}
	if err := proto.Unmarshal(data, in); err != nil {
		return failure.Invalid("", "the message cannot be read: %v", err)
	}
	return nil
}
