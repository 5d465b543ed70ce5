package oip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// serviceName is the name of the protocol in gRPC.
const serviceName = "inference.GRPCInferenceService"

const (
	// maxCalls is the maximum number of concurrent calls on one connection; more
	// wait at their client.
	maxCalls = 256
	// maxConnections is the maximum number of open connections; more are closed as
	// they arrive.
	maxConnections = 1024
)

// GRPCConfig is what a [GRPC] server needs of the service.
type GRPCConfig struct {
	Backend adapter.Backend
	// Ready returns why the service cannot score now, nil if it can.
	Ready func() error
	// Authorize returns the name of a caller, and why it may not score.
	Authorize func(exchange.Caller) (string, error)
	Settings  *exchange.Settings
	Memory    *rewardmodel.Memory
	// IdleTimeout closes a connection without calls.
	IdleTimeout time.Duration
	// MaxHeader limits the headers of a call in bytes.
	MaxHeader uint32
	// MaxStreams is the maximum number of open ModelStreamInfer calls.
	MaxStreams int
	// Draining is closed when the service shuts down: streams then end.
	Draining <-chan struct{}
	Log      zerolog.Logger
	Registry prometheus.Registerer
}

// GRPC serves the protocol over gRPC: the same calls as [Routes], for the same
// callers, within the same limits. Health (grpc.health.v1, without Watch) and
// reflection need no token, as /readyz and /openapi.json do not.
type GRPC struct {
	service
	cfg         GRPCConfig
	metrics     *grpcMetrics
	server      *grpc.Server
	connections connections
	streams     *semaphore.Weighted // open ModelStreamInfer calls
}

// NewGRPC registers the metrics and returns a server that does not listen yet.
func NewGRPC(cfg GRPCConfig) (*GRPC, error) {
	metrics, err := newGRPCMetrics(cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("gRPC metrics: %w", err)
	}
	s := &GRPC{service: service{cfg.Backend, cfg.Ready}, cfg: cfg, metrics: metrics, connections: connections{limit: maxConnections},
		streams: semaphore.NewWeighted(int64(cfg.MaxStreams))}
	s.server = grpc.NewServer(
		grpc.ForceServerCodecV2(newReplyCodec()),
		grpc.StreamInterceptor(s.observeStream),
		grpc.UnknownServiceHandler(unknownCall),
		grpc.MaxRecvMsgSize(maxSmallMessage), // for what receive does not read: reflection
		grpc.InitialWindowSize(streamWindow), // never larger, also for a fast client
		grpc.InitialConnWindowSize(1<<20),
		grpc.MaxHeaderListSize(cfg.MaxHeader),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.ConnectionTimeout(cfg.Settings.HeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: cfg.IdleTimeout, Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	s.register()
	return s, nil
}

func (s *GRPC) register() {
	s.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		Metadata:    inference.File_open_inference_proto.Path(),
		Streams: []grpc.StreamDesc{
			unary(s, "ServerLive", public, s.callLive),
			unary(s, "ServerReady", public, s.callReady),
			unary(s, "ServerMetadata", public, s.callServer),
			unary(s, "ModelReady", public, s.callModelReady),
			unary(s, "ModelMetadata", authorized, s.callModel),
			unary(s, "ModelConfig", authorized, s.callConfig),
			unary(s, "ModelInfer", authorized, s.callInfer),
			unary(s, "RepositoryIndex", authorized, s.callIndex),
			unary(s, "RepositoryModelLoad", authorized, s.callLoad),
			unary(s, "RepositoryModelUnload", authorized, s.callUnload),
			{StreamName: "ModelStreamInfer", ClientStreams: true, ServerStreams: true, Handler: s.streamInfer},
		},
	}, nil)
	s.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: grpc_health_v1.Health_ServiceDesc.ServiceName,
		Metadata:    grpc_health_v1.Health_ServiceDesc.Metadata,
		Streams:     []grpc.StreamDesc{unary(s, "Check", public, s.callHealth)},
	}, nil)
	reflection.Register(s.server)
}

// Serve accepts connections on l until [GRPC.Shutdown] or [GRPC.Stop], for which
// it returns nil, or until l fails.
func (s *GRPC) Serve(l net.Listener) error {
	if err := s.server.Serve(s.connections.listen(l)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %v: %w", l.Addr(), err)
	}
	return nil
}

// Stop closes all connections immediately.
func (s *GRPC) Stop() { s.server.Stop() }

// Shutdown stops listening and waits until the running calls are done. If ctx
// ends first, it cancels them and returns the cause of ctx.
func (s *GRPC) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.server.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.server.Stop()
		<-done
		return fmt.Errorf("draining gRPC calls: %w", context.Cause(ctx))
	}
}
