package api

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec below
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"assay/api/inference"
)

// anyone is the scope of calls that need none.
const anyone Scope = ""

// unary is a call of one message each way, for callers that may use scope. It is
// registered as a stream, which looks the same on the wire, so that its caller
// is known before its message is read.
func unary[In any, Out proto.Message, Message interface {
	*In
	proto.Message
}](s *Server, name string, scope Scope, answer func(context.Context, Message) (Out, error)) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, Handler: s.observed(func(_ any, stream grpc.ServerStream) error {
		ctx, cancel := context.WithTimeout(stream.Context(), s.cfg.RequestTimeout)
		defer cancel()
		if err := s.allow(ctx, scope); err != nil {
			return err
		}
		if err := prioritize(ctx, priorityIn(ctx)); err != nil {
			return err
		}
		in := Message(new(In))
		if err := s.receive(ctx, stream, in, s.messageLimit(in), nil); err != nil {
			return err
		}
		out, err := answer(ctx, in)
		if err != nil {
			return err
		}
		return s.reply(ctx, stream, out)
	})}
}

// messageLimit is how large the message of a call may be, in bytes.
func (s *Server) messageLimit(in proto.Message) int64 {
	if _, tensors := in.(*inference.ModelInferRequest); tensors {
		return s.limits.Load().maxBody
	}
	return maxSmallMessage
}

// allow lets callers pass that may use scope, and charges what they may send
// before it is read. Probes are small, are not charged, and so are never refused
// because of overload.
func (s *Server) allow(ctx context.Context, scope Scope) error {
	x := exchangeIn(ctx)
	if scope == anyone {
		x.memory = nil
		return nil
	}
	name, err := s.authorize(callerIn(ctx), scope)
	if x.by = name; err != nil {
		return err
	}
	return x.memory.Grow(streamWindow)
}

func callerIn(ctx context.Context) caller {
	md, _ := metadata.FromIncomingContext(ctx)
	return caller{
		remote: remoteOf(ctx), host: first(md, ":authority"), forwarded: forwardedBy(md), presented: md.Get("authorization"),
	}
}

// priorityIn is what the metadata of a call says of its urgency.
func priorityIn(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return first(md, priorityHeader)
}

func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// first is the first value of a header that came with a call.
func first(md metadata.MD, header string) string {
	if values := md.Get(header); len(values) > 0 {
		return values[0]
	}
	return ""
}

// replyCodec has replies report when they are sent.
type replyCodec struct{ encoding.CodecV2 }

func newReplyCodec() replyCodec { return replyCodec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c replyCodec) Marshal(message any) (mem.BufferSlice, error) {
	if m, ok := message.(*sending); ok {
		return m.marshal()
	}
	return c.CodecV2.Marshal(message)
}

func unknownCall(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	exchangeIn(stream.Context()).route = unmatched
	return status.Errorf(codes.Unimplemented, "there is no call %.200q; reflection lists those that there are", method)
}

// observeStream is for all but the unary calls, which gRPC lets no interceptor
// of streams see.
func (s *Server) observeStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if strings.HasPrefix(info.FullMethod, "/grpc.reflection.") {
		handler = s.withStreamDeadline(handler)
	}
	return s.observed(handler)(srv, stream)
}

// observed gives a call its id, words its failure, and logs and counts it.
func (s *Server) observed(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error {
		start := time.Now()
		md, _ := metadata.FromIncomingContext(stream.Context())
		ctx, x := withExchange(stream.Context(), first(md, "x-request-id"), first(md, "traceparent"))
		x.memory = s.parts.Memory.Open()
		defer x.memory.Close()
		_ = stream.SetHeader(metadata.Pairs("x-request-id", x.id)) // not sent yet
		s.metrics.calls.inFlight.Inc()
		defer s.metrics.calls.inFlight.Dec()

		defer s.conns.of(remoteOf(ctx)).begin()()
		// A compressed copy would be held where nobody sees when it is sent.
		_ = grpc.SetSendCompressor(stream.Context(), encoding.Identity)

		x.err = s.recovered(handler)(srv, &observedStream{stream, ctx, s})
		answer := s.callStatus(x.err, x.id, stream)
		if x.route == "" {
			method, _ := grpc.MethodFromServerStream(stream)
			x.route = strings.TrimPrefix(method, "/")
		}
		took := time.Since(start)
		s.metrics.calls.observe(x.route, answer.Code(), x.bytesIn, took)
		event := s.log.WithLevel(callLevel(x.route, answer.Code()))
		event.Str("request_id", x.id).Str("method", x.route).Stringer("code", answer.Code()).Int64("bytes_in", x.bytesIn).
			Float64("duration_ms", float64(took.Microseconds())/1000).Str("remote", remoteOf(ctx))
		x.describe(event)
		return answer.Err()
	}
}

// observedStream carries the exchange of its call.
type observedStream struct {
	grpc.ServerStream
	ctx    context.Context
	server *Server
}

// Context implements grpc.ServerStream.
func (o *observedStream) Context() context.Context { return o.ctx }

// recovered turns a panic of a handler into an error.
func (s *Server) recovered(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		defer func() {
			if value := recover(); value != nil {
				s.log.Error().Str("request_id", exchangeIn(stream.Context()).id).Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("handler panicked")
				err = errPanic(value)
			}
		}()
		return handler(srv, stream)
	}
}

// withStreamDeadline ends a stream that would stay open for as long as its client
// likes. What a client asks of reflection it asks right away.
func (s *Server) withStreamDeadline(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error {
		done := make(chan error, 1)
		go func() { done <- s.recovered(handler)(srv, stream) }() // ends with the call
		late := time.NewTimer(s.cfg.HeaderTimeout)
		defer late.Stop()
		select {
		case err := <-done:
			return err
		case <-late.C:
			return s.errIdleStream(s.cfg.HeaderTimeout)
		case <-s.drained:
			return errDraining
		}
	}
}

// callLevel keeps probes quiet and makes our own failures stand out.
func callLevel(method string, code codes.Code) zerolog.Level {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded:
		return zerolog.WarnLevel
	case codes.Internal, codes.Unknown:
		return zerolog.ErrorLevel
	}
	if strings.HasSuffix(method, "Live") || strings.HasSuffix(method, "Ready") || strings.HasPrefix(method, "grpc.health.") {
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}
