package grpcserver

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec below
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/internal/errorcode"
)

// Access specifies who may make a call.
type Access bool

// Who may make a call.
const (
	Public     Access = false // probes, which need no token
	Authorized Access = true  // callers that may score
)

// SmallMessage is the limit of calls whose messages name a model at most.
func SmallMessage() int64 { return maxSmallMessage }

// Unary describes a call of one message each way, of up to limit bytes. It is registered as a stream,
// which is the same on the wire, so that its caller is authorized before its
// message is read.
func Unary[In any, Out proto.Message, Message interface {
	*In
	proto.Message
}](s *Server, name string, who Access, limit func() int64, answer func(context.Context, Message) (Out, error)) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, Handler: s.observed(func(_ any, stream grpc.ServerStream) error {
		ctx, cancel := context.WithTimeout(stream.Context(), s.cfg.Settings.RequestTimeout)
		defer cancel()
		if err := s.Allow(ctx, who); err != nil {
			return err
		}
		if err := exchange.From(ctx).Prioritize(PriorityIn(ctx)); err != nil {
			return err
		}
		in := Message(new(In))
		if err := s.Receive(ctx, stream, in, min(limit(), exchange.From(ctx).Limits().MaxBody), Waiting{}); err != nil {
			return err
		}
		out, err := answer(ctx, in)
		if err != nil {
			return err
		}
		return s.Reply(ctx, stream, out)
	})}
}

// Allow rejects callers without access, and charges what the others may send
// before it is read. Probes are small, are not charged, and so are never rejected
// because of overload.
func (s *Server) Allow(ctx context.Context, who Access) error {
	x := exchange.From(ctx)
	if who == Public {
		x.Memory = nil
		return nil
	}
	if err := s.cfg.Admit(x, callerIn(ctx)); err != nil {
		return err
	}
	return x.Memory.Grow(streamWindow)
}

// Reauthorize returns why the caller of a stream may no longer score: its token may have
// been revoked since the stream was opened.
func (s *Server) Reauthorize(ctx context.Context) error {
	return s.cfg.Authorize(callerIn(ctx))
}

func callerIn(ctx context.Context) exchange.Caller {
	md, _ := metadata.FromIncomingContext(ctx)
	return exchange.Caller{Remote: remoteOf(ctx), Host: first(md, ":authority"), Authorization: md.Get("authorization"), Headers: md, Certificate: certificateIn(ctx)}
}

func certificateIn(ctx context.Context) *x509.Certificate {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return exchange.CertificateOf(&info.State)
		}
	}
	return nil
}

// PriorityIn returns the priority in the metadata of a call.
func PriorityIn(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return first(md, exchange.PriorityHeader)
}

func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// first returns the first value of a header of a call.
func first(md metadata.MD, header string) string {
	if values := md.Get(header); len(values) > 0 {
		return values[0]
	}
	return ""
}

// replyCodec marshals replies so that they report when the transport has sent them.
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
	exchange.From(stream.Context()).Route = exchange.UnmatchedRoute
	return status.Errorf(codes.Unimplemented, "unknown method %.200q; reflection lists the methods", method)
}

// observeStream intercepts all but the unary calls, which no interceptor of
// streams sees.
func (s *Server) observeStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if strings.HasPrefix(info.FullMethod, "/grpc.reflection.") {
		handler = s.withStreamDeadline(handler)
	}
	return s.observed(handler)(srv, stream)
}

// observed begins the exchange of a call, maps its error to a status, and logs and
// counts it.
func (s *Server) observed(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error {
		start := time.Now()
		md, _ := metadata.FromIncomingContext(stream.Context())
		memory := s.cfg.Memory.Open()
		defer memory.Close()
		method, _ := grpc.MethodFromServerStream(stream)
		method = strings.TrimPrefix(method, "/")
		client := exchange.Identity{RequestID: first(md, "x-request-id"), Traceparent: first(md, "traceparent"), Tracestate: first(md, "tracestate")}
		ctx, x := exchange.Begin(stream.Context(), client, spanName(method), memory, s.cfg.Settings)
		_ = stream.SetHeader(metadata.Pairs("x-request-id", x.ID)) // not sent yet
		defer x.End()
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()

		defer s.connections.of(remoteOf(ctx)).begin()()
		// A compressed copy would be held where nothing reports when it is sent.
		_ = grpc.SetSendCompressor(stream.Context(), encoding.Identity)

		x.Err = s.recovered(handler)(srv, &observedStream{stream, ctx, s})
		answer := callStatus(x.Err, x, stream)
		x.Route = cmp.Or(x.Route, method)
		took := time.Since(start)
		s.metrics.observe(ctx, x.Route, answer.Code(), x.BytesIn, took)
		entry := s.cfg.Log.WithLevel(callLevel(x.Route, answer.Code()))
		entry.Str("request_id", x.ID).Str("method", x.Route).Stringer("code", answer.Code()).Int64("bytes_in", x.BytesIn).
			Float64("duration_ms", float64(took.Microseconds())/1000).Str("remote", remoteOf(ctx))
		x.Log(entry)
		endSpan(x, answer.Code())
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
				s.cfg.Log.Error().Str("request_id", exchange.From(stream.Context()).ID).Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("handler panicked")
				err = failure.Panic(value)
			}
		}()
		return handler(srv, stream)
	}
}

// withStreamDeadline limits a stream that would stay open for as long as its
// client likes. Clients of reflection send their requests immediately.
func (s *Server) withStreamDeadline(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error {
		done := make(chan error, 1)
		go func() { done <- s.recovered(handler)(srv, stream) }() // ends with the call
		late := time.NewTimer(s.cfg.Settings.HeaderTimeout)
		defer late.Stop()
		select {
		case err := <-done:
			return err
		case <-late.C:
			return s.idleStream(s.cfg.Settings.HeaderTimeout)
		case <-s.cfg.Draining:
			return failure.ErrDraining
		}
	}
}

// idleStream ends a stream without a request within the limit.
func (s *Server) idleStream(limit time.Duration) error {
	return s.cfg.Settings.Unavailable(errorcode.Idle, "the stream ends after %v; open it again for the next request", limit)
}

// callLevel returns debug for probes, and warning or error for failures of the
// service.
func callLevel(method string, code codes.Code) zerolog.Level {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded:
		return zerolog.WarnLevel
	case codes.Internal, codes.Unknown:
		return zerolog.ErrorLevel
	}
	if isProbe(method) {
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// isProbe reports whether a method is one that monitoring calls.
func isProbe(method string) bool {
	return strings.HasSuffix(method, "Live") || strings.HasSuffix(method, "Ready") || strings.HasPrefix(method, "grpc.health.")
}
