// Package livegrpc serves live sessions over gRPC, as the service assay.v1.Live of
// live.proto: the same sessions as POST /v1/live, for the same callers.
package livegrpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/grpcserver"
	"assay/api/internal/livestream"
	"assay/api/livegrpc/livepb"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
)

// Register adds the service to a gRPC server. sessions may be nil: then the call fails
// with Unimplemented. memory is that of the server. Once draining is closed, calls
// without a session end.
func Register(server *grpcserver.Server, sessions *live.Sessions, memory *rewardmodel.Memory, draining <-chan struct{}) {
	handle := func(_ any, call grpc.ServerStream) error {
		if err := server.Allow(call.Context(), grpcserver.Authorized); err != nil {
			return err
		}
		if sessions == nil {
			return failure.NotEnabled()
		}
		s := newStream(server, call, memory, draining)
		defer s.end()
		return livestream.Serve(call.Context(), sessions, s, "grpc")
	}
	server.Register(&grpc.ServiceDesc{
		ServiceName: "assay.v1.Live",
		Metadata:    livepb.File_live_proto.Path(),
		Streams:     []grpc.StreamDesc{{StreamName: "Session", ClientStreams: true, ServerStreams: true, Handler: handle}},
	})
}

// stream is the stream of a call. Received and sent messages have a reservation each,
// apart from that of the session, since the server releases each message as a whole.
type stream struct {
	server             *grpcserver.Server
	call               grpc.ServerStream
	x, receiving       *exchange.Exchange
	receive, send      context.Context
	received, toBeSent *rewardmodel.Reservation
	wait               grpcserver.Waiting // for the next message
	hungUp             chan struct{}
}

func newStream(server *grpcserver.Server, call grpc.ServerStream, memory *rewardmodel.Memory, draining <-chan struct{}) *stream {
	s := &stream{server: server, call: call, x: exchange.From(call.Context()), received: memory.Open(), toBeSent: memory.Open(), hungUp: make(chan struct{})}
	s.wait = grpcserver.Waiting{Limit: s.x.HeaderTimeout, Stop: draining}
	s.receive, s.receiving = s.x.Fork(call.Context(), s.received)
	s.send, _ = s.x.Fork(call.Context(), s.toBeSent)
	return s
}

func (s *stream) end() {
	s.x.BytesIn = s.receiving.BytesIn
	s.received.Close()
	s.toBeSent.Close()
}

// Receive implements livestream.Stream.
func (s *stream) Receive() (wire.LiveMessage, error) {
	s.received.ShrinkTo(0) // nothing is left of the message before
	var in livepb.LiveMessage
	if err := s.server.Receive(s.receive, s.call, &in, s.x.Limits().MaxBody, s.wait); err != nil {
		return wire.LiveMessage{}, err
	}
	if err := s.server.Reauthorize(s.call.Context()); err != nil {
		return wire.LiveMessage{}, err
	}
	if text, ok := in.Message.(*livepb.LiveMessage_Text); ok {
		return wire.LiveMessage{Text: &text.Text}, nil
	}
	message, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&in)
	if err != nil {
		return wire.LiveMessage{}, failure.Invalid("", "the message cannot be read: %v", err)
	}
	return livestream.Decode(s.x, message)
}

// Start implements livestream.Stream. From now on the session limits how long it is idle,
// and ends when the service shuts down.
func (s *stream) Start() error {
	s.wait = grpcserver.Waiting{Stop: s.hungUp}
	return s.call.SendHeader(nil)
}

// Send implements livestream.Stream. The status of the call has the error.
func (s *stream) Send(message []byte) error {
	var out livepb.LiveEvent
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, &out); err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if out.Utterance == nil && out.Reset_ == nil && out.Result == nil {
		return nil
	}
	return s.server.Reply(s.send, s.call, &out)
}

// Hangup implements livestream.Stream.
func (s *stream) Hangup(error) { close(s.hungUp) }
