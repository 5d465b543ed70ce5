package api

import (
	"context"
	"crypto/tls"
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

	"assay/api/access"
	"assay/api/console"
	"assay/api/internal/eventlog"
	"assay/api/internal/exchange"
	"assay/api/internal/grpcserver"
	"assay/api/livegrpc"
	"assay/api/oip"
	"assay/internal/servertls"
	"assay/rewardmodel/wire"
)

// Server serves assay over HTTP and gRPC. Make one with [New].
type Server struct {
	settings  *exchange.Settings
	log       zerolog.Logger
	checks    *readiness
	events    *eventlog.Log
	cache     *fleetCache
	drained   chan struct{} // closed by Drain
	drainOnce sync.Once

	main         http.Handler
	rpc          *grpcserver.Server
	sockets      *sockets
	mainServer   *http.Server
	opsServer    *http.Server // health, metrics and profiles only
	shutdownDone chan struct{}
	shutdownOnce atomic.Bool
}

// New validates the settings, registers the metrics with registry, which
// /metrics exposes, and returns a server that does not listen yet.
func New(cfg Config, parts Parts, log zerolog.Logger, registry *prometheus.Registry) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	guard, err := cfg.crossOrigin()
	if err != nil {
		return nil, err
	}
	pages, err := console.Load()
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	metrics, err := newMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("api: metrics: %w", err)
	}
	s := &Server{
		settings: &exchange.Settings{RequestTimeout: cfg.RequestTimeout, HeaderTimeout: cfg.HeaderTimeout, RetryAfter: cfg.RetryAfter, MinRate: cfg.MinRate, Tracer: parts.Tracer},
		log:      log,
		checks:   newReadiness(parts.Checks, log),
		events:   eventlog.New(parts.Events, readTimeout),
		drained:  make(chan struct{}), shutdownDone: make(chan struct{}),
		sockets: newSockets(),
	}
	s.settings.SetLimits(exchange.Limits{MaxBody: cfg.MaxBody, Scoring: cfg.Limits})
	s.cache = &fleetCache{registry: parts.Registry, trainer: parts.Trainer, feedback: parts.FeedbackView, events: s.events}
	if err := registry.Register(s.checks); err != nil {
		return nil, fmt.Errorf("api: metrics: %w", err)
	}
	if err := registry.Register(access.NewQuotaMetrics(parts.Tokens)); err != nil {
		return nil, fmt.Errorf("api: metrics: %w", err)
	}
	audit := access.NewAuditLog(log)
	if parts.Audit != nil {
		audit = access.NewAuditLog(*parts.Audit)
	}
	r := routes{
		audit: audit,
		cfg:   cfg, parts: parts, registry: registry, events: s.events, cache: s.cache, drained: s.drained,
		authorizer: access.Authorizer{Tokens: parts.Tokens, Insecure: cfg.Insecure, TrustLoopback: cfg.TrustLoopback, Sessions: console.NewSessions(), Audit: audit},
		console:    pages,
		health:     health{checks: s.checks, drained: s.drained},
		observer:   observer{metrics: metrics, log: log, memory: parts.Memory, settings: s.settings, drained: s.drained},
		guard:      guard,
		sockets:    s.sockets,
	}
	s.main = r.main()
	s.mainServer, s.opsServer = s.httpServer(cfg, parts.TLS, s.main), s.httpServer(cfg, parts.TLS, r.ops())
	s.rpc, err = grpcserver.New(grpcserver.Config{
		Ready:     r.health.readiness,
		Authorize: func(c exchange.Caller) error { return r.authorizer.Check(c, access.ScopeScore) },
		Admit: func(x *exchange.Exchange, c exchange.Caller) error {
			return r.authorizer.Admit(x, c, access.ScopeScore)
		},
		Settings: s.settings, Memory: parts.Memory, TLS: parts.TLS, IdleTimeout: cfg.IdleTimeout, MaxHeader: maxHeader,
		Draining: s.drained, Log: log, Registry: registry,
	})
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	oip.RegisterGRPC(s.rpc, oip.GRPCConfig{Backend: r.backend(), Ready: r.health.readiness, Settings: s.settings, MaxStreams: cfg.MaxInferStreams, Draining: s.drained})
	livegrpc.Register(s.rpc, parts.Live, parts.Memory, s.drained)
	return s, nil
}

// maxHeader bounds the headers of a request, in bytes.
const maxHeader = 64 << 10

// The limits of a connection of HTTP/2: how many requests it may have in flight, and
// how many bytes a client may send before a request, or all of them, are read. Live
// sessions that are behind their clients leave room for others.
const (
	maxStreams   = 256
	streamBuffer = 64 << 10
	connBuffer   = 1 << 20
)

// httpServer bounds every phase of a connection, so that a stalled client holds
// nothing forever. The read and write timeouts exceed the request timeout: until
// then the handler responds itself, with a reason.
func (s *Server) httpServer(cfg Config, identity *servertls.Identity, handler http.Handler) *http.Server {
	const grace = 30 * time.Second
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	var secure *tls.Config
	if identity == nil {
		protocols.SetUnencryptedHTTP2(true) // a proxy in front of the service ends TLS
	} else {
		protocols.SetHTTP2(true)
		secure = identity.Config(tls.VerifyClientCertIfGiven, "h2", "http/1.1")
	}
	return &http.Server{
		TLSConfig:         secure,
		Handler:           handler,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connBuffer},
		ReadHeaderTimeout: cfg.HeaderTimeout,
		ReadTimeout:       cfg.RequestTimeout + grace,
		WriteTimeout:      cfg.RequestTimeout + 2*grace,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          stdlog.New(connectionLog{s.log}, "", 0),
	}
}

// connectionLog receives what net/http reports about connections, mostly broken
// ones.
type connectionLog struct{ log zerolog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.log.Debug().Bytes("detail", line).Msg("http connection")
	return len(line), nil
}

// SetLimits replaces Config.MaxBody, in bytes, and Config.Limits for requests
// that arrive from now on.
func (s *Server) SetLimits(maxBody int64, scoring wire.Limits) error {
	if err := validateMaxBody(maxBody); err != nil {
		return err
	}
	s.settings.SetLimits(exchange.Limits{MaxBody: maxBody, Scoring: scoring})
	return nil
}

// Handler returns the whole HTTP service, to embed it in another server.
func (s *Server) Handler() http.Handler { return s.main }

// Serve serves HTTP on l until [Server.Shutdown] has finished, for which it
// returns nil, l fails, or ctx ends, which closes every connection immediately.
// While it runs, it follows the events and the checks. Call it once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	following, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { s.checks.watch(following) })
	if s.events.HasSource() {
		group.Go(func() { s.events.Run(following) })
		group.Go(func() { s.cache.run(following) })
	}
	return s.serveHTTP(ctx, s.mainServer, l)
}

// ServeOps is like [Server.Serve], for health, metrics and profiles only, on a
// listener of their own. Health and metrics need no token; the profiles of
// net/http/pprof, below /debug/pprof/, need the scope admin or, where there are no
// tokens, a caller on the same machine. It continues until the other listeners have
// shut down, so that probes see the drain.
func (s *Server) ServeOps(ctx context.Context, l net.Listener) error {
	return s.serveHTTP(ctx, s.opsServer, l)
}

func (s *Server) serveHTTP(ctx context.Context, server *http.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		s.sockets.cancel()
	})
	defer stop()
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	err := serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %v: %w", l.Addr(), err)
	}
	return s.awaitShutdown(ctx)
}

// ServeGRPC is like [Server.Serve], for gRPC: the Open Inference Protocol and live sessions.
func (s *Server) ServeGRPC(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, s.rpc.Stop)
	defer stop()
	if err := s.rpc.Serve(l); err != nil {
		return err
	}
	return s.awaitShutdown(ctx)
}

func (s *Server) awaitShutdown(ctx context.Context) error {
	select {
	case <-s.shutdownDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Drain makes /readyz respond 503 and asks clients to close their connections.
// Requests are still served, so that those in flight complete; only event streams
// end, so that their clients connect elsewhere.
func (s *Server) Drain() {
	s.drainOnce.Do(func() { close(s.drained) })
}

// Shutdown drains, stops listening, and waits for the requests in flight. If ctx
// ends first, it cancels them and returns the cause of ctx. Only the first call
// does anything; the others wait for it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if !s.shutdownOnce.CompareAndSwap(false, true) {
		select {
		case <-s.shutdownDone:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(s.shutdownDone)
	var fronts errgroup.Group
	fronts.Go(func() error { return shutdown(ctx, s.mainServer) })
	fronts.Go(func() error { return s.sockets.shutdown(ctx) })
	fronts.Go(func() error { return s.rpc.Shutdown(ctx) })
	return errors.Join(fronts.Wait(), shutdown(ctx, s.opsServer))
}

func shutdown(ctx context.Context, server *http.Server) error {
	err := server.Shutdown(ctx)
	if err == nil {
		return nil
	}
	_ = server.Close()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("draining HTTP requests: %w", err)
}

// isClosed reports whether a channel that only signals is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
