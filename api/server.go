package api

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
)

// Server answers the HTTP and the gRPC side of assay. Make one with [New].
type Server struct {
	cfg          Config
	limits       atomic.Pointer[limits] // those of cfg, until SetLimits
	parts        Parts
	log          zerolog.Logger
	metrics      *metrics
	checks       *readiness
	events       *eventLog
	known        lastKnown
	eventStreams *semaphore.Weighted // open streams of GET /v1/events
	inferStreams *semaphore.Weighted // open calls of ModelStreamInfer
	drained      chan struct{}       // closed by Drain
	drainOnce    sync.Once

	// The routes that are shaped after other projects: by pattern, how they
	// word failures, and what GET / says of them.
	dialects map[string]dialect
	foreign  []operation

	main, ops    http.Handler
	rpc          *grpc.Server
	conns        connections // of rpc
	mainServer   *http.Server
	opsServer    *http.Server
	shutdownDone chan struct{}
	shutdownOnce atomic.Bool
}

// New checks the settings, registers the metrics with registry, which
// /metrics then shows, and returns a server that does not listen yet.
func New(cfg Config, parts Parts, log zerolog.Logger, registry *prometheus.Registry) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	guard, err := cfg.crossOrigin()
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("api: metrics: %w", err)
	}
	s := &Server{
		cfg: cfg, parts: parts, log: log, metrics: metrics,
		drained: make(chan struct{}), shutdownDone: make(chan struct{}),
		dialects: map[string]dialect{}, events: newEventLog(parts.Events),
	}
	s.checks = newReadiness(parts.Checks, log)
	if err := registry.Register(s.checks); err != nil {
		return nil, fmt.Errorf("api: metrics: %w", err)
	}
	s.eventStreams, s.inferStreams = semaphore.NewWeighted(int64(cfg.MaxEventStreams)), semaphore.NewWeighted(int64(cfg.MaxInferStreams))
	s.limits.Store(&limits{cfg.MaxBody, cfg.Limits})
	s.main = s.router(guard, registry)
	s.ops = s.opsRouter(guard, registry)
	s.conns.limit = maxConnections
	s.rpc = s.grpcServer()
	s.mainServer = s.httpServer(s.main)
	s.opsServer = s.httpServer(s.ops)
	return s, nil
}

// maxHeader bounds the headers of a request, in bytes.
const maxHeader = 64 << 10

// httpServer bounds every phase of a connection, so that a client that stalls
// holds nothing for ever. The read and write limits lie beyond the request
// timeout: until then the handler answers itself, with a reason.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	const grace = 30 * time.Second
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		ReadTimeout:       s.cfg.RequestTimeout + grace,
		WriteTimeout:      s.cfg.RequestTimeout + 2*grace,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          stdlog.New(serverLog{s.log}, "", 0),
	}
}

// serverLog takes what net/http reports about connections, mostly clients
// that break them.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.log.Debug().Bytes("detail", line).Msg("http connection")
	return len(line), nil
}

// Handler returns the whole service, for tests and other servers.
func (s *Server) Handler() http.Handler { return s.main }

// OpsHandler returns health and metrics alone, for a listener of their own.
func (s *Server) OpsHandler() http.Handler { return s.ops }

// Serve answers on l until [Server.Shutdown] has finished (it then returns
// nil), l fails, or ctx ends, which closes every connection immediately. While
// it runs, it follows the events and the checks. Call it once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	following, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { s.checks.watch(following) })
	if s.parts.Events != nil {
		group.Go(func() { s.events.run(following) })
		group.Go(func() { s.recall(following) })
	}
	return s.serve(ctx, s.mainServer, l)
}

// ServeOps is like [Server.Serve], for [Server.OpsHandler]. It goes on until
// the other has shut down, so that probes see the drain.
func (s *Server) ServeOps(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, s.opsServer, l)
}

func (s *Server) serve(ctx context.Context, server *http.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %v: %w", l.Addr(), err)
	}
	select {
	case <-s.shutdownDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Drain makes /readyz answer 503 and asks clients to close their connections.
// Requests are still served, so that those on their way find an answer; only
// streams of events end, for their clients to go on elsewhere.
func (s *Server) Drain() {
	s.drainOnce.Do(func() { close(s.drained) })
}

func (s *Server) draining() bool {
	select {
	case <-s.drained:
		return true
	default:
		return false
	}
}

// Shutdown drains, stops listening, and waits until the requests that run are
// answered. When ctx ends first it cuts them off and returns ctx's error.
// Only the first call does anything; the others wait for it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if !s.shutdownOnce.CompareAndSwap(false, true) {
		select {
		case <-s.shutdownDone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(s.shutdownDone)
	var fronts errgroup.Group
	fronts.Go(func() error { return shutdown(ctx, s.mainServer) })
	fronts.Go(func() error { return s.shutdownGRPC(ctx) })
	return errors.Join(fronts.Wait(), shutdown(ctx, s.opsServer))
}

func shutdown(ctx context.Context, server *http.Server) error {
	err := server.Shutdown(ctx)
	if err != nil {
		_ = server.Close()
	}
	return err
}
