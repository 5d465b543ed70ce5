// Package grpcserver is the gRPC server of assay, for the services that other packages
// register with it. It charges messages before it reads them, cuts connections whose
// clients do not read their replies, and observes every call: exchange, status,
// metrics, log and span.
package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"assay/api/internal/exchange"
	"assay/internal/servertls"
	"assay/rewardmodel"
)

const (
	// maxCalls is the maximum number of concurrent calls on one connection; more
	// wait at their client.
	maxCalls = 256
	// maxConnections is the maximum number of open connections; more are closed as
	// they arrive.
	maxConnections = 1024
)

// Config is what a [Server] needs of the service.
type Config struct {
	// Ready returns why the service cannot score now, nil if it can.
	Ready func() error
	// Authorize returns why a caller may not score.
	Authorize func(exchange.Caller) error
	// Admit is Authorize for the caller of a new call, which it counts in the quota of
	// the caller.
	Admit    func(*exchange.Exchange, exchange.Caller) error
	Settings *exchange.Settings
	// TLS is the certificate of the server; nil: plain gRPC.
	TLS    *servertls.Identity
	Memory *rewardmodel.Memory
	// IdleTimeout closes a connection without calls.
	IdleTimeout time.Duration
	// MaxHeader limits the headers of a call in bytes.
	MaxHeader uint32
	// Draining is closed when the service shuts down: streams then end.
	Draining <-chan struct{}
	Log      zerolog.Logger
	Registry prometheus.Registerer
}

// Server serves the services that are registered with it, health (grpc.health.v1,
// without Watch) and reflection. The last two need no token, as /readyz and
// /openapi.json do not.
type Server struct {
	cfg         Config
	metrics     *metrics
	server      *grpc.Server
	connections connections
}

// New registers the metrics and returns a server that does not listen yet.
func New(cfg Config) (*Server, error) {
	metrics, err := newMetrics(cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("gRPC metrics: %w", err)
	}
	s := &Server{cfg: cfg, metrics: metrics, connections: connections{limit: maxConnections}}
	secure := insecure.NewCredentials()
	if cfg.TLS != nil {
		secure = credentials.NewTLS(cfg.TLS.Config(tls.VerifyClientCertIfGiven, "h2"))
	}
	s.server = grpc.NewServer(
		grpc.Creds(secure),
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
	s.registerHealth()
	reflection.Register(s.server)
	return s, nil
}

// Services describes the registered services, by name.
func (s *Server) Services() map[string]grpc.ServiceInfo { return s.server.GetServiceInfo() }

// Register adds a service. Call it before Serve.
func (s *Server) Register(service *grpc.ServiceDesc) { s.server.RegisterService(service, nil) }

// Serve accepts connections on l until [Server.Shutdown] or [Server.Stop], for which
// it returns nil, or until l fails.
func (s *Server) Serve(l net.Listener) error {
	if err := s.server.Serve(s.connections.listen(l)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %v: %w", l.Addr(), err)
	}
	return nil
}

// Stop closes all connections immediately.
func (s *Server) Stop() { s.server.Stop() }

// Shutdown stops listening and waits until the running calls are done. If ctx
// ends first, it cancels them and returns the cause of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
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
