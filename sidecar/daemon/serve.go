package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"assay/api"
	"assay/queue"
	"assay/queue/embedded"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
	"assay/sidecar/serve"
	"assay/sidecar/traces"
)

// Serve runs the service until a signal ends it.
type Serve struct {
	Listen        string `default:"${listen}" placeholder:"HOST:PORT" help:"Listen address of HTTP (${default}); port 0: any free port."`
	OpsListen     string `placeholder:"HOST:PORT" help:"Additional listen address for health and metrics, without tokens, and for profiles of memory and CPU time (/debug/pprof/), which need the scope admin or, without tokens, a caller on this machine."`
	GRPCListen    string `name:"grpc-listen" placeholder:"HOST:PORT" help:"Listen address of gRPC: the Open Inference Protocol, for Triton and KServe clients, and live sessions (usually port 8001)."`
	TokenFile     string `placeholder:"FILE" help:"File of client tokens, one per line: TOKEN SCOPE[,SCOPE...] [NAME] [LIMIT=VALUE...], with the scopes score, feedback and admin; TOKEN may be sha256:HEX, or cert:cn=NAME, cert:dns=NAME or cert:uri=URI for a client certificate; the limits are rate=N/s, labels=N/h, concurrent=N and body=BYTES; reloaded when it changes. Clients on this machine also need a token, unless --trust-loopback is set."`
	TrustLoopback bool   `help:"Accept clients on this machine without a token even with --token-file. Every user of the machine then has the scope admin."`
	Private       bool   `help:"Restrict access to the current user: generate a token at each start in DATA_DIR/token (mode 0600), and require it from every client of HTTP, gRPC and the embedded NATS server, including on loopback. The command line and the client libraries read it from there."`
	AuditLog      string `placeholder:"FILE" help:"Append the audit log to this file, one JSON object per change of labels, models and training and per refused request; default: the log, with the field audit."`
	cli.ServerTLSFlags
	Insecure        bool          `help:"Allow listeners that other machines can reach without authentication."`
	MaxBody         cli.ByteSize  `default:"${max_body}" placeholder:"BYTES" help:"Maximum size of a decompressed request body (${default})."`
	MaxResponses    int           `default:"${max_responses}" help:"Maximum responses per request."`
	RequestMemory   cli.ByteSize  `default:"${request_memory}" placeholder:"BYTES" help:"Memory limit of all requests together (${default}), 40 KiB of it for each one in flight; requests beyond it get 503. The process uses up to twice that for requests, plus the memory of the model."`
	RequestTimeout  time.Duration `default:"${request_timeout}" help:"Timeout of a request, and idle timeout of a gRPC stream."`
	LiveSessions    int           `default:"${live_sessions}" help:"Maximum open live sessions; further ones get 503."`
	LiveIdle        time.Duration `default:"${live_idle}" help:"Time without text after which a live session ends."`
	LiveBytes       cli.ByteSize  `default:"${live_bytes}" placeholder:"BYTES" help:"Maximum text of a live session (${default})."`
	ShutdownTimeout time.Duration `default:"${shutdown_timeout}" help:"Time to finish requests in flight after SIGINT or SIGTERM; a second signal terminates immediately."`
	DrainDelay      time.Duration `default:"0s" help:"Time to keep serving after a signal while /readyz returns 503, so that load balancers stop sending requests; counts towards --shutdown-timeout."`
	TrustedOrigin   []string      `placeholder:"ORIGIN" help:"Web origins (https://host) whose pages may call the service."`

	localmodel.Flags       `group:"Model:"`
	localmodel.ScorerFlags `group:"Model:"`
	localmodel.PolicyFlags `group:"Model:"`
	MaxQueueTokens         int          `default:"${max_queue_tokens}" group:"Model:" help:"Maximum tokens queued for the model, further limited to what it computes within --request-timeout, and within 2 s while requests are refused; requests beyond it get 503."`
	Pin                    string       `placeholder:"VERSION" group:"Model:" help:"Serve this version and ignore promotions; may be the version of --model."`
	ModelsLoaded           int          `default:"${models_loaded}" group:"Model:" help:"Maximum loaded versions: the current one and those that requests pin."`
	ModelsBytes            cli.ByteSize `default:"0" placeholder:"BYTES" group:"Model:" help:"Memory limit of the loaded versions; 0: no limit."`

	Train        bool `default:"true" negatable:"" group:"Feedback and training:" help:"Run training jobs in child processes of this service; with --no-train, another replica or assay trainer runs them."`
	RetrainFlags `group:"Feedback and training:"`

	serveNATSFlags `group:"NATS:"`
	cli.NATSFlags  `group:"NATS:"`
	streamFlags    `group:"NATS streams (0: keep the value of an existing stream; default for a new one):"`
}

// serveNATSFlags configure the embedded NATS server and the consumers of the service.
type serveNATSFlags struct {
	NATS           string        `name:"nats" default:"embedded" enum:"embedded,off" help:"NATS server (${enum}); --nats-url selects an external one."`
	NATSListen     string        `name:"nats-listen" default:"${nats_listen}" placeholder:"HOST:PORT" help:"Listen address of the embedded server (${default}); port 0: any free port."`
	DataDir        string        `default:"${data_dir}" placeholder:"DIR" help:"Directory for persistent data: the streams of the embedded server, models and training runs (${default})."`
	Sync           cli.SyncMode  `default:"always" enum:"always,interval" help:"When the embedded server flushes to disk (${enum}): always, before each acknowledgement; interval, every ${sync_interval} in the background, which is faster, but a power failure loses the messages acknowledged since the last flush."`
	NATSMaxPayload cli.ByteSize  `name:"nats-max-payload" default:"${nats_max_payload}" placeholder:"BYTES" help:"Maximum message size of the embedded server (${default}), up to 64MiB."`
	NATSMaxStore   cli.ByteSize  `name:"nats-max-store" default:"${nats_max_store}" placeholder:"BYTES" help:"Disk limit of all streams of the embedded server (${default})."`
	NATSRequests   int           `name:"nats-max-requests" default:"${nats_max_requests}" help:"Maximum concurrent requests on assay.v1.score; requests beyond it get 503."`
	MaxInFlight    int           `default:"${max_in_flight}" help:"Maximum streamed responses in flight in this process."`
	MaxAckPending  int           `default:"${max_ack_pending}" help:"Maximum streamed responses in flight in all replicas together."`
	AckWait        time.Duration `default:"${ack_wait}" help:"Time without a heartbeat after which a streamed response is redelivered to another replica."`
	MaxDeliver     int           `default:"${max_deliver}" help:"Failures of the model on a streamed response, in one process, after which it is dead-lettered."`
}

// streamFlags set the limits of the streams.
type streamFlags struct {
	StreamReplicas        int           `help:"Replicas of each stream in a cluster (1)."`
	StreamDuplicateWindow time.Duration `help:"Deduplication window of Nats-Msg-Id (15m)."`
	StreamResponsesBytes  cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of queued responses; when full, publishing fails (1GiB)."`
	StreamRewardsBytes    cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of the rewards; the oldest are removed first (1GiB)."`
	StreamRewardsAge      time.Duration `help:"Retention of rewards (168h)."`
	StreamDeadBytes       cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of the dead letters (256MiB)."`
	StreamDeadAge         time.Duration `help:"Retention of dead letters (720h)."`
	StreamFeedbackBytes   cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of the labels with their texts; when full, feedback is rejected (1GiB)."`
	StreamFeedbackAge     time.Duration `help:"Retention of labels (forever)."`
	StreamScoredBytes     cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of the responses stored by --keep-scored; the oldest are removed first (1GiB)."`
	StreamModelsBytes     cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of the model files; when full, no candidate is promoted (16GiB)."`
	StreamEventsBytes     cli.ByteSize  `placeholder:"BYTES" help:"Maximum size of the events (64MiB)."`
	StreamEventsAge       time.Duration `help:"Retention of events (2160h)."`
	KeepScored            time.Duration `default:"0s" help:"Retention of scored responses with their text, for feedback by response_id, for labelling candidates and for the texts in the console; 0: do not store them."`
}

// minRequestMemory leaves room for one JetStream pull in addition to the largest
// request, which may use three quarters of it.
const minRequestMemory cli.ByteSize = 256 << 20

// Help is shown by --help.
func (*Serve) Help() string {
	return `Example:

    assay serve --listen 127.0.0.1:8080 --data-dir ./data

Serves POST /v1/score over HTTP and the NATS subject assay.v1.score, and scores messages on assay.v1.responses.>
to assay.v1.rewards.>. Once ready, it prints a curl command to try.

Exports traces over OTLP if OTEL_EXPORTER_OTLP_ENDPOINT is set, as the other OTEL_* variables configure it.`
}

// Run is called by kong.
func (c *Serve) Run(a *cli.App) error {
	if err := c.CheckSettings(); err != nil {
		return cli.Usage(err)
	}
	cfg, err := c.Config()
	if err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	s, err := serve.New(cfg, a.Log)
	if err != nil {
		return err
	}
	s.Start()
	context.AfterFunc(ctx, func() { _ = s.Shutdown() }) // Wait returns its error
	if s.Ready(ctx) == nil {
		if err := (announcement{flags: c, app: a, service: s}).write(); err != nil {
			return errors.Join(err, s.Shutdown())
		}
	}
	watching, unwatch := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { a.Settings.Watch(watching, liveSettings(s)) })
	err = cli.NameNATSFlags(s.Wait())
	unwatch()
	watched.Wait()
	return err
}

// liveSettings are the settings that take effect while a service runs: the request limits.
func liveSettings(s *serve.Service) cli.LiveSettings {
	limits := func(command any) error {
		c := command.(*Serve)
		return s.SetLimits(int64(c.MaxBody), c.limits())
	}
	return cli.LiveSettings{"max-body": limits, "max-responses": limits}
}

// CheckSettings reports invalid settings before anything starts.
func (c *Serve) CheckSettings() error {
	errs := []error{c.ScorerFlags.Check(), c.RetrainFlags.Check(), c.validateListeners(), c.validateNATS()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if err := c.ServerTLSFlags.Files().Check(); err != nil {
		errs = append(errs, err)
	}
	check(c.TLSClientCA == "" || c.TokenFile != "", "--tls-client-ca needs --token-file, whose lines name the client certificates; give both")
	check(!c.Private || !c.TrustLoopback, "--private and --trust-loopback are mutually exclusive; give only one of them")
	check(c.MaxBody > 0, "--max-body is %d; give a number of bytes above 0", c.MaxBody)
	check(c.RequestMemory >= minRequestMemory, "--request-memory is %d; give at least %d", c.RequestMemory, minRequestMemory)
	check(c.MaxResponses > 0, "--max-responses is %d; give at least 1", c.MaxResponses)
	check(c.MaxQueueTokens > 0, "--max-queue-tokens is %d; give at least 1", c.MaxQueueTokens)
	check(c.RequestTimeout > 0, "--request-timeout is %v; give a duration above 0", c.RequestTimeout)
	check(c.LiveSessions > 0, "--live-sessions is %d; give at least 1", c.LiveSessions)
	check(c.LiveIdle > 0, "--live-idle is %v; give a duration above 0", c.LiveIdle)
	check(c.LiveBytes > 0, "--live-bytes is %d; give a number of bytes above 0", c.LiveBytes)
	check(c.DrainDelay >= 0 && (c.DrainDelay == 0 || c.DrainDelay < c.ShutdownTimeout), "--drain-delay is %v; give less than --shutdown-timeout, %v", c.DrainDelay, c.ShutdownTimeout)
	check(c.ModelsLoaded >= 2, "--models-loaded is %d; give at least 2, so that the previous version serves while a promoted one loads", c.ModelsLoaded)
	check(c.ModelsBytes >= 0, "--models-bytes is %d; give 0 or more", c.ModelsBytes)
	check(c.KeepScored >= 0, "--keep-scored is %v; give 0 or more", c.KeepScored)
	check(c.ShutdownTimeout > 0, "--shutdown-timeout is %v; give a duration above 0", c.ShutdownTimeout)
	return errors.Join(errs...)
}

func (c *Serve) validateListeners() error {
	guarded := c.Insecure || c.Private || c.TokenFile != ""
	listeners := []struct {
		flag, address string
		on, guarded   bool
	}{
		{"--listen", c.Listen, true, guarded},
		{"--ops-listen", c.OpsListen, c.OpsListen != "", true}, // health and metrics need no token
		{"--grpc-listen", c.GRPCListen, c.GRPCListen != "", guarded},
		{"--nats-listen", c.NATSListen, c.embedded(), c.Insecure || c.Private || c.NatsToken != ""},
	}
	for _, l := range listeners {
		if !l.on {
			continue
		}
		err := api.CheckListen(l.address, l.guarded)
		if errors.Is(err, api.ErrExposed) {
			return fmt.Errorf("%s: %w: listen on 127.0.0.1, require tokens (--token-file for HTTP, --nats-token for NATS, --private for both), or allow it with --insecure", l.flag, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.flag, err)
		}
		if _, err := net.ResolveTCPAddr("tcp", l.address); err != nil {
			return fmt.Errorf("%s %s: %w", l.flag, l.address, err)
		}
	}
	return nil
}

func (c *Serve) validateNATS() error {
	if c.NATS == "off" && c.NatsURL != "" {
		return errors.New("--nats off and --nats-url are mutually exclusive; omit one of them")
	}
	for _, f := range []struct {
		flag  string
		value int
	}{
		{"--nats-max-requests", c.NATSRequests}, {"--max-in-flight", c.MaxInFlight},
		{"--max-ack-pending", c.MaxAckPending}, {"--max-deliver", c.MaxDeliver},
	} {
		if f.value < 1 {
			return fmt.Errorf("%s is %d; give at least 1", f.flag, f.value)
		}
	}
	if c.NatsDomain != "" && c.NatsURL == "" {
		return errors.New("--nats-jetstream-domain needs --nats-url; the embedded server has no domain")
	}
	if c.NATSMaxPayload < 64<<10 || c.NATSMaxPayload > 64<<20 {
		return fmt.Errorf("--nats-max-payload is %d; give 64KiB to 64MiB", c.NATSMaxPayload)
	}
	if c.AckWait <= 0 || c.StreamReplicas < 0 || c.StreamDuplicateWindow < 0 || c.StreamRewardsAge < 0 || c.StreamDeadAge < 0 ||
		c.StreamFeedbackAge < 0 || c.StreamEventsAge < 0 {
		return errors.New("--ack-wait must be above 0, and --stream-replicas, --stream-duplicate-window and the --stream-*-age flags must not be negative")
	}
	return nil
}

// embedded reports whether the NATS server runs in this process.
func (c *Serve) embedded() bool { return c.NATS != "off" && c.NatsURL == "" }

// Config is the service that the flags describe. The error is about files that the flags name; the other fields are set.
func (c *Serve) Config() (cfg serve.Config, err error) {
	cfg = serve.DefaultConfig()
	cfg.Listen, cfg.OpsListen, cfg.GRPCListen = c.Listen, c.OpsListen, c.GRPCListen
	cfg.TokenFile, cfg.Private, cfg.TLS, cfg.AuditLog = c.TokenFile, c.Private, c.ServerTLSFlags.Files(), c.AuditLog
	cfg.API.MaxBody, cfg.API.RequestTimeout, cfg.API.TrustedOrigins = int64(c.MaxBody), c.RequestTimeout, c.TrustedOrigin
	cfg.API.Limits = c.limits()
	cfg.API.Insecure, cfg.API.TrustLoopback = c.Insecure, c.TrustLoopback
	cfg.RequestMemory = int64(c.RequestMemory)
	cfg.Live = live.Limits{Sessions: c.LiveSessions, Idle: c.LiveIdle, Bytes: int(c.LiveBytes)}
	cfg.ShutdownTimeout, cfg.DrainDelay = c.ShutdownTimeout, c.DrainDelay
	cfg.Model, cfg.Scorer = c.Flags.Config(), c.ScorerFlags.Config()
	cfg.Scorer.MaxQueueTokens, cfg.Scorer.MaxQueueTime = c.MaxQueueTokens, c.RequestTimeout
	cfg.Pin, cfg.ModelsLoaded, cfg.ModelsBytes = c.Pin, c.ModelsLoaded, int64(c.ModelsBytes)
	cfg.NATS, cfg.Queue, cfg.DataDir = c.NATS != "off", c.queueConfig(), c.DataDir
	cfg.Train, cfg.Training = c.Train, c.RetrainFlags.Config()
	cfg.Traces = traces.Configured()
	cfg.Scorer.PolicyTokenizers, err = c.PolicyFlags.Load()
	return cfg, err
}

func (c *Serve) limits() wire.Limits {
	return wire.Limits{MaxResponses: c.MaxResponses}
}

func (c *Serve) queueConfig() queue.Config {
	version, _ := cli.BuildVersion()
	return queue.Config{
		Server: embedded.Config{
			Listen: c.NATSListen, Token: c.NatsToken, SyncInterval: c.Sync.Interval(),
			MaxPayload: int(c.NATSMaxPayload), MaxStore: int64(c.NATSMaxStore),
		},
		Conn:    c.NATSFlags.Config(),
		Streams: c.streamFlags.config(),
		Worker: queue.WorkerConfig{
			MaxInFlight: c.MaxInFlight, MaxAckPending: c.MaxAckPending,
			AckWait: c.AckWait, MaxDeliver: c.MaxDeliver,
		},
		Service: queue.ServiceConfig{
			Version: version, Timeout: c.RequestTimeout, MaxRequests: c.NATSRequests, Limits: c.limits(),
		},
	}
}

func (c streamFlags) config() queue.StreamsConfig {
	return queue.StreamsConfig{
		Replicas: c.StreamReplicas, DuplicateWindow: c.StreamDuplicateWindow,
		ResponsesMaxBytes: int64(c.StreamResponsesBytes),
		RewardsMaxBytes:   int64(c.StreamRewardsBytes), RewardsMaxAge: c.StreamRewardsAge,
		DeadMaxBytes: int64(c.StreamDeadBytes), DeadMaxAge: c.StreamDeadAge,
		FeedbackMaxBytes: int64(c.StreamFeedbackBytes), FeedbackMaxAge: c.StreamFeedbackAge,
		KeepScored: c.KeepScored, ScoredMaxBytes: int64(c.StreamScoredBytes),
		ModelsMaxBytes: int64(c.StreamModelsBytes), EventsMaxBytes: int64(c.StreamEventsBytes), EventsMaxAge: c.StreamEventsAge,
	}
}
