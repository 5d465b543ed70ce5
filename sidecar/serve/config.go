package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/queue"
	"assay/rewardmodel"
	"assay/sidecar/fleet"
	"assay/sidecar/localmodel"
)

// Config is what a service is made of. DefaultConfig gives every field a working value.
type Config struct {
	Listen     string // HOST:PORT of HTTP; port 0 takes any free one
	OpsListen  string // HOST:PORT of health and metrics alone, without tokens; "": none
	GRPCListen string // HOST:PORT of the Open Inference Protocol over gRPC; "": none

	TokenFile string // of the callers' tokens, read again when it changes; "": none
	// Private generates a token in DataDir at each start, which every caller needs, also those of the embedded NATS
	// server unless Queue.Server.Token is given.
	Private bool

	API           api.Config
	RequestMemory int64 // bytes that all requests together may hold; 0: rewardmodel.DefaultMemory
	// ShutdownTimeout bounds Shutdown, and with it DrainDelay, for which the service continues to answer while it reports
	// not to be ready.
	ShutdownTimeout, DrainDelay time.Duration

	Model        localmodel.Config
	Scorer       rewardmodel.ScorerConfig // without what the checkpoint says
	Pin          string                   // serve this version whatever is promoted; "": the current one
	ModelsLoaded int                      // versions that stay loaded, at least 2
	ModelsBytes  int64                    // of their weights; 0: no limit

	// NATS starts the streams, and with them feedback and training: on an embedded server, or on that of Queue.Conn.URL.
	NATS    bool
	Queue   queue.Config // its memory and labels are those of the service
	DataDir string       // for streams, models and training runs

	Train    bool         // run training jobs in this process' children
	Training fleet.Config // when and how

	// Registry gets the metrics, which /metrics shows; nil: a new one, with those of the process and of the Go runtime.
	Registry *prometheus.Registry
}

// DefaultConfig is what the flags default to, without a data directory.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		API:    api.DefaultConfig(), RequestMemory: rewardmodel.DefaultMemory,
		ShutdownTimeout: 30 * time.Second,
		Model:           localmodel.Config{Model: localmodel.DefaultModel},
		Scorer:          rewardmodel.ScorerConfig{CacheBytes: localmodel.DefaultCacheBytes},
		ModelsLoaded:    2,
		NATS:            true,
		Train:           true, Training: fleet.DefaultConfig(),
	}
}

// embedded reports whether the NATS server runs in this process.
func (c Config) embedded() bool { return c.NATS && c.Queue.Conn.URL == "" }
