// Package extproc serves the external processing protocol of Envoy (ext_proc): each HTTP
// exchange of Envoy passes through an [http.Handler], which sees Envoy as both its client
// and, through [Upstream], its upstream.
//
// Envoy must buffer the request body and stream the response body in both directions
// (BUFFERED or NONE, and FULL_DUPLEX_STREAMED): the handler then decides what of the
// response is sent, and when.
package extproc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Config configures a [Server].
type Config struct {
	// Handler gets each exchange. Its requests must go through Upstream, with the context
	// of the exchange or one derived from it.
	Handler http.Handler
	// VerdictHeader is the header or trailer of the handler, with a JSON object, that
	// becomes dynamic metadata in the namespace assay; "": none.
	VerdictHeader string
	MaxExchanges  uint32      // at the same time, per connection of Envoy
	MaxBody       int64       // bytes of a buffered request
	TLS           *tls.Config // of the listener; nil: plain gRPC
	Log           zerolog.Logger
}

// Server is the gRPC server of the protocol.
type Server struct {
	extproc.UnimplementedExternalProcessorServer
	config Config
	grpc   *grpc.Server
}

// NewServer returns a server that does not listen yet.
func NewServer(c Config) *Server {
	const envelope = 1 << 20 // headers, and what the protocol adds to a body
	secure := insecure.NewCredentials()
	if c.TLS != nil {
		secure = credentials.NewTLS(c.TLS)
	}
	s := &Server{config: c, grpc: grpc.NewServer(
		grpc.Creds(secure),
		grpc.MaxRecvMsgSize(int(c.MaxBody)+envelope),
		grpc.MaxConcurrentStreams(c.MaxExchanges),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute}),
		grpc.WaitForHandlers(true),
	)}
	extproc.RegisterExternalProcessorServer(s.grpc, s)
	return s
}

// Serve accepts connections on l until Shutdown, for which it returns nil, or until l
// fails.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil {
		return fmt.Errorf("serving ext_proc on %v: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown stops listening and waits until the exchanges in flight are done. If ctx ends
// first, it cancels them and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return fmt.Errorf("draining exchanges of Envoy: %w", ctx.Err())
	}
}

// Process implements the protocol.
func (s *Server) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	return newExchange(s.config, stream).run()
}
