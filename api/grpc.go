package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"assay/api/inference"
)

// inferenceService is the name of the protocol on the wire.
const inferenceService = "inference.GRPCInferenceService"

// maxCalls is how many calls of one connection are answered at once; more wait
// at their client.
const maxCalls = 256

// grpcServer answers the Open Inference Protocol over gRPC, as KServe and
// Triton speak it: the same calls as openInference over HTTP, for the same
// callers, within the same limits. Health (grpc.health.v1, without Watch) and
// reflection are for everybody, as /readyz and /openapi.json are.
func (s *Server) grpcServer() *grpc.Server {
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(newReplyCodec()),
		grpc.StreamInterceptor(s.observeStream),
		grpc.UnknownServiceHandler(unknownCall),
		grpc.MaxRecvMsgSize(maxSmallMessage), // of what receive does not read: reflection
		grpc.InitialWindowSize(streamWindow), // and no larger for a client that is fast
		grpc.InitialConnWindowSize(1<<20),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.ConnectionTimeout(s.cfg.HeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.cfg.IdleTimeout, Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: inferenceService,
		Metadata:    inference.File_open_inference_proto.Path(),
		Streams: []grpc.StreamDesc{
			unary(s, "ServerLive", anyone, s.callLive),
			unary(s, "ServerReady", anyone, s.callReady),
			unary(s, "ServerMetadata", anyone, s.callServer),
			unary(s, "ModelReady", anyone, s.callModelReady),
			unary(s, "ModelMetadata", ScopeScore, s.callModel),
			unary(s, "ModelConfig", ScopeScore, s.callConfig),
			unary(s, "ModelInfer", ScopeScore, s.callInfer),
			unary(s, "RepositoryIndex", ScopeScore, s.callIndex),
			unary(s, "RepositoryModelLoad", ScopeScore, s.callLoad),
			unary(s, "RepositoryModelUnload", ScopeScore, s.callUnload),
			{StreamName: "ModelStreamInfer", ClientStreams: true, ServerStreams: true, Handler: s.streamInfer},
		},
	}, nil)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: grpc_health_v1.Health_ServiceDesc.ServiceName,
		Metadata:    grpc_health_v1.Health_ServiceDesc.Metadata,
		Streams:     []grpc.StreamDesc{unary(s, "Check", anyone, s.callHealth)},
	}, nil)
	reflection.Register(server)
	return server
}

// ServeGRPC is like [Server.Serve], for the Open Inference Protocol over gRPC.
func (s *Server) ServeGRPC(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, s.rpc.Stop)
	defer stop()
	if err := s.rpc.Serve(s.conns.listen(l)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %v: %w", l.Addr(), err)
	}
	select {
	case <-s.shutdownDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// shutdownGRPC waits until the calls that run are answered, or cuts them off
// when ctx ends.
func (s *Server) shutdownGRPC(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.rpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.rpc.Stop()
		<-done
		return ctx.Err()
	}
}
