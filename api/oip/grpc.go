package oip

import (
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/grpcserver"
	"assay/api/oip/inference"
)

// GRPCConfig is what the protocol over gRPC needs of the service.
type GRPCConfig struct {
	Backend adapter.Backend
	// Ready returns why the service cannot score now, nil if it can.
	Ready    func() error
	Settings *exchange.Settings
	// MaxStreams is the maximum number of open ModelStreamInfer calls.
	MaxStreams int
	// Draining is closed when the service shuts down: streams then end.
	Draining <-chan struct{}
}

// calls are the calls of the protocol over gRPC.
type calls struct {
	service
	cfg     GRPCConfig
	server  *grpcserver.Server
	streams *semaphore.Weighted // open ModelStreamInfer calls
}

// RegisterGRPC adds the protocol to a gRPC server: the same calls as [Routes], for the
// same callers, within the same limits.
func RegisterGRPC(server *grpcserver.Server, cfg GRPCConfig) {
	s := &calls{service: service{cfg.Backend, cfg.Ready}, cfg: cfg, server: server, streams: semaphore.NewWeighted(int64(cfg.MaxStreams))}
	const public, authorized = grpcserver.Public, grpcserver.Authorized
	small := grpcserver.SmallMessage
	server.Register(&grpc.ServiceDesc{
		ServiceName: "inference.GRPCInferenceService",
		Metadata:    inference.File_open_inference_proto.Path(),
		Streams: []grpc.StreamDesc{
			grpcserver.Unary(server, "ServerLive", public, small, s.callLive),
			grpcserver.Unary(server, "ServerReady", public, small, s.callReady),
			grpcserver.Unary(server, "ServerMetadata", public, small, s.callServer),
			grpcserver.Unary(server, "ModelReady", public, small, s.callModelReady),
			grpcserver.Unary(server, "ModelMetadata", authorized, small, s.callModel),
			grpcserver.Unary(server, "ModelConfig", authorized, small, s.callConfig),
			grpcserver.Unary(server, "ModelInfer", authorized, s.maxRequest, s.callInfer),
			grpcserver.Unary(server, "RepositoryIndex", authorized, small, s.callIndex),
			grpcserver.Unary(server, "RepositoryModelLoad", authorized, small, s.callLoad),
			grpcserver.Unary(server, "RepositoryModelUnload", authorized, small, s.callUnload),
			{StreamName: "ModelStreamInfer", ClientStreams: true, ServerStreams: true, Handler: s.streamInfer},
		},
	})
}

// maxRequest is the maximum size of a request with tensors in bytes.
func (s *calls) maxRequest() int64 { return s.cfg.Settings.Limits().MaxBody }
