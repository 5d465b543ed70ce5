package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"assay/api"
	client "assay/clients/go"
	"assay/internal/servertls"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/sidecar/cli"
	"assay/sidecar/extproc"
	"assay/sidecar/localmodel"
	"assay/sidecar/proxy"
	"assay/sidecar/serve"
)

// Proxy guards the responses of an OpenAI-compatible server.
type Proxy struct {
	Upstream      *url.URL `placeholder:"URL" help:"Base URL of the inference server (vLLM, SGLang, llama.cpp, transformers serve), without /v1. Required without --ext-proc-listen."`
	Mode          string   `default:"${proxy_mode}" enum:"${proxy_modes}" help:"What happens to text (${enum}). observe forwards it immediately and reports the verdict at the end. The others release an utterance after its verdict: hold withholds the text from the first violating utterance on, stop also cancels the upstream there, redact replaces violating utterances."`
	Redaction     string   `default:"${proxy_redaction}" placeholder:"TEXT" help:"What replaces a violating utterance with --mode redact."`
	OnFailure     string   `default:"closed" enum:"closed,open" help:"When scoring fails with --mode hold, stop or redact (${enum}): closed ends the response with an error, open releases the text without a verdict."`
	Reasoning     string   `default:"skip" enum:"skip,score" help:"Whether to skip or score reasoning, in fields of its own and in <think> blocks (${enum}). Skipped reasoning is forwarded without a verdict."`
	GuardedOnly   bool     `help:"Refuse requests with a body to endpoints other than chat completions, completions and responses, and requests for stored files, conversations and batches, since their text is not scored."`
	Listen        string   `default:"${proxy_listen}" placeholder:"HOST:PORT" help:"Listen address (${default}); port 0: any free port."`
	ExtProcListen string   `placeholder:"HOST:PORT" help:"Guard the responses that pass through an Envoy: listen address for its external processing protocol (gRPC), in place of --upstream and --listen."`
	OpsListen     string   `placeholder:"HOST:PORT" help:"Listen address for health and metrics, and for profiles (/debug/pprof/), which need a caller on this machine. Every path of --listen is the upstream's."`
	cli.ServerTLSFlags
	Insecure        bool          `help:"Allow a listener that other machines can reach. The proxy has no tokens: it forwards the client's to the upstream."`
	VerdictTimeout  time.Duration `default:"${proxy_verdict_timeout}" help:"Timeout of a verdict: with --mode observe, of the end of a response, which then has none; otherwise of the utterances that the next 4 KiB of a text complete, and of the rest at its end; a later one is a failure. With --url, it also bounds the time for which the service may leave text unscored, in every mode; 0 (with observe): none."`
	UpstreamTimeout time.Duration `default:"${proxy_upstream_timeout}" help:"Maximum time for which the upstream may send nothing."`
	ShutdownTimeout time.Duration `default:"${shutdown_timeout}" help:"Time to finish requests in flight after SIGINT or SIGTERM; a second signal terminates immediately."`
	MaxRequests     int           `default:"${proxy_max_requests}" help:"Maximum guarded requests in flight; requests beyond it get 503. A request counts once per 32 choices, or per 16 with --reasoning score."`
	MaxBody         cli.ByteSize  `default:"${max_body}" placeholder:"BYTES" help:"Maximum size of a guarded request, of a response that is not streamed, and of an event (${default})."`
	MaxHeld         cli.ByteSize  `default:"${proxy_max_held}" placeholder:"BYTES" help:"Maximum text of a choice that waits for a verdict (${default}); more is a failure."`

	URL                    string `name:"url" placeholder:"URL" group:"Score through a running service instead of a model in this process:" help:"URL of the service, for example http://127.0.0.1:8080."`
	Token                  string `group:"Score through a running service instead of a model in this process:" help:"Token of the service, with the scope score; default: that of a private service on this machine (serve --private)."`
	DataDir                string `default:"${data_dir}" placeholder:"DIR" group:"Score through a running service instead of a model in this process:" help:"Data directory of a private service on this machine, for its token (${default})."`
	cli.ClientTLSFlags     `group:"Score through a running service instead of a model in this process:"`
	cli.NATSFlags          `group:"Publish verdicts on NATS:"`
	localmodel.Flags       `group:"Model:"`
	localmodel.ScorerFlags `group:"Model:"`
}

// Help is shown by --help.
func (*Proxy) Help() string {
	return `Example:

    vllm serve Qwen/Qwen3-8B --port 8000
    assay proxy --upstream http://127.0.0.1:8000 --mode stop
    OPENAI_BASE_URL=http://127.0.0.1:8090/v1 python app.py
    assay proxy --ext-proc-listen 127.0.0.1:9002 --mode hold

Scores the responses of an OpenAI-compatible server while it writes them. Every other request passes through.`
}

// proxyDefaults are the default values of the flags of Proxy.
func proxyDefaults() map[string]any {
	c := proxy.DefaultConfig()
	modes := ""
	for i, m := range proxy.Modes() {
		if i > 0 {
			modes += ","
		}
		modes += string(m)
	}
	return map[string]any{
		"proxy_listen": DefaultProxyListen, "proxy_mode": string(c.Mode), "proxy_modes": modes, "proxy_redaction": c.Redaction,
		"proxy_verdict_timeout": c.VerdictTimeout, "proxy_upstream_timeout": c.UpstreamTimeout,
		"proxy_max_requests": c.MaxRequests, "proxy_max_held": cli.ByteSize(c.MaxHeld),
	}
}

// DefaultProxyListen is the default listen address of a proxy.
const DefaultProxyListen = "127.0.0.1:8090"

// Config is the proxy that the flags describe.
func (c *Proxy) Config() proxy.Config {
	config := proxy.Config{
		Upstream: c.Upstream, Mode: proxy.Mode(c.Mode), Redaction: c.Redaction,
		FailOpen: c.OnFailure == "open", ScoreReasoning: c.Reasoning == "score", GuardedOnly: c.GuardedOnly,
		VerdictTimeout: c.VerdictTimeout, UpstreamTimeout: c.UpstreamTimeout,
		MaxRequests: c.MaxRequests, MaxBody: int64(c.MaxBody), MaxHeld: int(c.MaxHeld),
	}
	if c.ExtProcListen != "" {
		config.Transport = extproc.Upstream{Timeout: c.UpstreamTimeout}
	}
	return config
}

// address is where the guarded requests arrive, and the flag that says so.
func (c *Proxy) address() (address, flag string) {
	if c.ExtProcListen != "" {
		return c.ExtProcListen, "--ext-proc-listen"
	}
	return c.Listen, "--listen"
}

// Run is called by kong.
func (c *Proxy) Run(a *cli.App) (err error) {
	if err := c.CheckSettings(); err != nil {
		return cli.Usage(err)
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := cli.RegisterBuildInfo(registry); err != nil {
		return err
	}
	var identity *servertls.Identity
	if files := c.ServerTLSFlags.Files(); files.Enabled() {
		if identity, err = servertls.Load(files, a.Log); err != nil {
			return cli.Usage(err)
		}
	}
	address, flag := c.address()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w; stop the process that uses the address, or choose another", flag, err)
	}
	defer listener.Close()
	guard, closeGuard, err := c.guard(ctx, registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeGuard()) }()
	config := c.Config()
	var verdicts *verdictPublisher
	if c.NatsURL != "" {
		verdicts = &verdictPublisher{config: c.NATSFlags.PrivateConfig(c.DataDir), log: a.Log}
		config.Publish = verdicts.publish
		defer verdicts.close()
	}
	p, err := proxy.New(config, guard, a.Log, registry)
	if err != nil {
		return cli.Usage(err)
	}
	defer p.Close()

	group, ctx := errgroup.WithContext(ctx)
	if verdicts != nil {
		group.Go(func() error {
			verdicts.connect(ctx)
			return nil
		})
	}
	if c.OpsListen != "" {
		ready := api.Check{Name: "guard", Ready: guard.Ready}
		group.Go(func() error { return api.ServeOps(ctx, c.OpsListen, identity, ready, a.Log, registry) })
	}
	if identity != nil {
		group.Go(func() error {
			identity.Watch(ctx)
			return nil
		})
	}
	server := c.server(p, identity, a.Log)
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			return fmt.Errorf("requests were still in flight after --shutdown-timeout: %w", err)
		}
		return nil
	})
	c.announce(a.Log, listener.Addr().String())
	return group.Wait()
}

// proxyServer is a transport of the proxy.
type proxyServer interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// server requires a certificate of every client where --tls-client-ca is given: the
// proxy has no tokens.
func (c *Proxy) server(p *proxy.Proxy, identity *servertls.Identity, log zerolog.Logger) proxyServer {
	secure := func(protocols ...string) *tls.Config {
		if identity == nil {
			return nil
		}
		return identity.Config(tls.RequireAndVerifyClientCert, protocols...)
	}
	if c.ExtProcListen != "" {
		return extproc.NewServer(extproc.Config{
			Handler: p, VerdictHeader: proxy.VerdictHeader,
			MaxExchanges: uint32(c.MaxRequests), MaxBody: int64(c.MaxBody), TLS: secure("h2"), Log: log, //nolint:gosec // both are checked
		})
	}
	return httpServer{&http.Server{Handler: p, TLSConfig: secure("h2", "http/1.1"), ReadHeaderTimeout: api.DefaultConfig().HeaderTimeout, IdleTimeout: api.DefaultConfig().IdleTimeout, ErrorLog: stdlog.New(log, "", 0)}}
}

// httpServer is a server whose Serve returns nil after Shutdown, which closes what is
// left of it.
type httpServer struct{ server *http.Server }

// Serve implements proxyServer.
func (s httpServer) Serve(l net.Listener) error {
	serve := s.server.Serve
	if s.server.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %v: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown implements proxyServer.
func (s httpServer) Shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	return err
}

func (c *Proxy) announce(log zerolog.Logger, address string) {
	ready := log.Info().Str("mode", c.Mode)
	if c.ExtProcListen != "" {
		ready.Str("ext_proc", address).Msg("ready")
		return
	}
	scheme := "http://"
	if c.TLSCert != "" {
		scheme = "https://"
	}
	ready.Str("http", serve.Reachable(scheme+address)).Stringer("upstream", c.Upstream).Msg("ready")
}

// CheckSettings reports invalid settings before anything starts.
func (c *Proxy) CheckSettings() error {
	if err := c.ScorerFlags.Check(); err != nil {
		return err
	}
	if c.ShutdownTimeout <= 0 {
		return fmt.Errorf("--shutdown-timeout is %v; give a duration above 0", c.ShutdownTimeout)
	}
	if err := c.Config().Check(); err != nil {
		return err
	}
	if c.ExtProcListen != "" && c.Upstream != nil {
		return errors.New("--upstream and --ext-proc-listen exclude each other: Envoy has its own upstream")
	}
	address, flag := c.address()
	if err := c.ServerTLSFlags.Files().Check(); err != nil {
		return err
	}
	err := api.CheckListen(address, c.Insecure || c.TLSClientCA != "")
	if errors.Is(err, api.ErrExposed) {
		return fmt.Errorf("%s: %w: listen on 127.0.0.1, require client certificates with --tls-client-ca, or allow it with --insecure", flag, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// guard connects to a service or loads a model. Call the returned function to close it.
func (c *Proxy) guard(ctx context.Context, registry prometheus.Registerer) (proxy.Guard, func() error, error) {
	if c.URL != "" {
		secure, err := c.ClientTLSFlags.Option()
		if err != nil {
			return nil, nil, cli.Usage(err)
		}
		service, err := client.New(c.URL, secure, client.WithToken(c.Token), client.WithDataDir(c.DataDir), client.WithTimeout(max(c.VerdictTimeout, time.Second)))
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--url: %w", err))
		}
		return proxy.NewRemote(service, c.Config().Reasoning(), c.VerdictTimeout), func() error { service.Close(); return nil }, nil
	}
	m, err := c.Flags.Config().Open()
	if err != nil {
		return nil, nil, err
	}
	scoring := c.ScorerFlags.Config()
	scoring.MaxQueueTokens = localmodel.UnboundedQueue
	loaded, err := m.Load(ctx, scoring, registry)
	if err := errors.Join(err, m.Close()); err != nil {
		return nil, nil, err
	}
	sessions := live.New(scorer{loaded.Scorer}, live.Limits{
		Sessions: c.MaxRequests * proxy.SessionsPerRequest, Idle: c.UpstreamTimeout + c.VerdictTimeout,
	})
	if err := registry.Register(sessions); err != nil {
		return nil, nil, errors.Join(err, loaded.Close())
	}
	memory, err := rewardmodel.NewMemory(rewardmodel.DefaultMemory, registry)
	if err != nil {
		return nil, nil, errors.Join(err, loaded.Close())
	}
	return proxy.NewLocal(sessions, c.Config().Reasoning(), memory), func() error { sessions.Close(); return loaded.Close() }, nil
}

// scorer is one model, which stays loaded.
type scorer struct{ *rewardmodel.Scorer }

// Live implements live.Scorer.
func (s scorer) Live(ctx context.Context, request rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	session, err := s.Scorer.Live(ctx, request)
	return session, func() {}, err
}
