package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/servertls"
	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/sidecar/fleet"
	"assay/sidecar/localmodel"
)

// Config configures a service. Start from DefaultConfig.
type Config struct {
	Listen     string // HOST:PORT of HTTP; port 0: any free port
	OpsListen  string // HOST:PORT of health and metrics, without tokens, and of profiles; "": none
	GRPCListen string // HOST:PORT of the Open Inference Protocol over gRPC; "": none

	TokenFile string // of the client tokens, reloaded when it changes; "": none
	// Private generates a token in DataDir at each start and requires it from every client, including clients of the
	// embedded NATS server unless Queue.Server.Token is set.
	Private bool

	AuditLog string // file that the audit log is appended to; "": the log

	TLS servertls.Files // of all listeners but that of NATS; zero: they serve plain HTTP and gRPC

	API           api.Config
	RequestMemory int64 // memory limit in bytes of all requests together; 0: rewardmodel.DefaultMemory
	Live          live.Limits
	// ShutdownTimeout limits Shutdown, including DrainDelay, during which the service keeps serving but reports that it
	// is not ready.
	ShutdownTimeout, DrainDelay time.Duration

	Model        localmodel.Config
	Scorer       rewardmodel.ScorerConfig // without Observer, which the service sets, and the fields that the checkpoint sets
	Pin          string                   // serve this version and ignore promotions; "": serve the current version
	ModelsLoaded int                      // maximum loaded versions, at least 2
	ModelsBytes  int64                    // memory limit of the loaded versions; 0: no limit

	// NATS enables the streams, feedback and training, on an embedded server or the one at Queue.Conn.URL.
	NATS    bool
	Queue   queue.Config // the service sets its memory and labels
	DataDir string       // for streams, models and training runs

	Train    bool         // run training jobs in child processes of this one
	Training fleet.Config // configures these jobs

	// Traces exports spans over OTLP, as the environment variables of OpenTelemetry configure it (OTEL_EXPORTER_OTLP_ENDPOINT).
	Traces bool

	// Registry collects the metrics that /metrics exposes; nil: a new one, including process and Go runtime metrics.
	Registry *prometheus.Registry
}

// DefaultConfig has the defaults of the flags, but no data directory.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		API:    api.DefaultConfig(), RequestMemory: rewardmodel.DefaultMemory,
		Live:            live.Limits{Sessions: live.DefaultSessions, Idle: live.DefaultIdle, Bytes: live.DefaultBytes},
		ShutdownTimeout: 30 * time.Second,
		Model:           localmodel.Config{Model: localmodel.DefaultModel},
		Scorer:          rewardmodel.ScorerConfig{CacheBytes: localmodel.DefaultCacheBytes},
		ModelsLoaded:    2,
		NATS:            true,
		Train:           true, Training: fleet.DefaultConfig(),
	}
}

// Embedded reports whether the NATS server runs in this process.
func (c Config) Embedded() bool { return c.NATS && c.Queue.Conn.URL == "" }
