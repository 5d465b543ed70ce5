package doctor

import (
	"cmp"
	"context"
	"math"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"assay/queue"
	"assay/queue/embedded"
	"assay/sidecar/cli"
	"assay/sidecar/serve"
)

const (
	quickTimeout    = 10 * time.Second // of checks that read only this machine, and of one NATS server
	embeddedTimeout = 5 * time.Second  // of the embedded server of a running service, which may listen elsewhere
	modelTimeout    = 2 * time.Minute  // to read, load and run a large model
)

// Service returns the checks of the service that cfg describes, in the order in which it starts. The settings
// themselves have been validated.
func Service(cfg serve.Config) []Check {
	machine := os.DirFS("/")
	checks := []Check{
		{"processor", quickTimeout, func(context.Context) []Finding {
			p, err := readProcessor(cfg.Model.Compute)
			if err != nil {
				return []Finding{{"processor", Error, "libtorch: " + err.Error(), "set --device cpu; docs/how-to/gpu.md explains the devices"}}
			}
			return p.findings()
		}},
		{"threads", quickTimeout, func(context.Context) []Finding {
			l, err := readLimits(machine)
			return append(threads{
				setting: cfg.Model.Threads, goMaxProcs: runtime.GOMAXPROCS(0), variable: os.Getenv("GOMAXPROCS"),
				openMP:   os.Getenv("OMP_THREAD_LIMIT"),
				affinity: runtime.NumCPU(), quota: l.cpus,
			}.findings(), unreadable("threads", err)...)
		}},
		{"files", quickTimeout, func(context.Context) []Finding {
			var limit unix.Rlimit
			err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
			if err != nil {
				limit.Cur = math.MaxUint64
			}
			return append(openFiles(limit.Cur), unreadable("files", err)...)
		}},
		{"model", modelTimeout, func(ctx context.Context) []Finding {
			m := readModel(ctx, cfg.Model, cfg.Scorer)
			l, err := readLimits(machine)
			needed := memory{
				limit: l.memory, machine: readMachineMemory(machine),
				model: m.bytes, versions: loadedVersions(cfg), cache: cfg.Scorer.CacheBytes, requests: cfg.RequestMemory,
			}
			return append(append(m.findings(time.Now()), needed.findings()...), unreadable("memory", err)...)
		}},
		{"clock", quickTimeout, func(context.Context) []Finding { return clock(time.Now(), cli.BuildTime()) }},
	}
	if cfg.NATS || cfg.Private {
		checks = append(checks, dataCheck(cfg))
	}
	checks = append(checks, natsCheck(cfg))
	checks = append(checks, Check{"tokens", quickTimeout, func(context.Context) []Finding {
		if cfg.TokenFile == "" {
			return noTokenFile(cfg.Private, cfg.API.Insecure)
		}
		return readTokenFile(cfg.TokenFile).findings()
	}})
	if cfg.TLS.Enabled() {
		checks = append(checks, Check{"tls", quickTimeout, func(context.Context) []Finding { return certificate(cfg.TLS, time.Now()) }})
	}
	for _, l := range listeners(cfg) {
		checks = append(checks, Check{"listen", quickTimeout, l.findings})
	}
	return checks
}

// loadedVersions is the number of versions that are loaded at the same time: two during a promotion.
func loadedVersions(cfg serve.Config) int64 {
	if cfg.NATS {
		return 2
	}
	return 1
}

// unreadable is the finding of a limit that cannot be read, if err is not nil.
func unreadable(check string, err error) []Finding {
	if err == nil {
		return nil
	}
	return []Finding{{check, Warning, "the limit is unknown: " + err.Error(), "run assay doctor where the service runs, with the same permissions"}}
}

func dataCheck(cfg serve.Config) Check {
	return Check{"data", quickTimeout, func(context.Context) []Finding {
		var maxStore int64
		if cfg.Embedded() {
			maxStore = cfg.Queue.Server.MaxStore
		}
		return readDataDir(cfg.DataDir).findings(maxStore, cfg.Queue.Server.SyncInterval == 0)
	}}
}

func natsCheck(cfg serve.Config) Check {
	return Check{"nats", 2 * quickTimeout, func(ctx context.Context) []Finding {
		switch {
		case !cfg.NATS:
			return []Finding{{"nats", OK, "--nats off: scoring over HTTP only, without feedback and training", ""}}
		case cfg.Embedded():
			listen := cmp.Or(cfg.Queue.Server.Listen, embedded.DefaultListen)
			return append(embeddedSync(cfg.Queue.Server.SyncInterval), embeddedStreams(inspectEmbedded(ctx, cfg, listen), listen)...)
		}
		ctx, cancel := context.WithTimeout(ctx, quickTimeout)
		defer cancel()
		i, err := queue.Inspect(ctx, cfg.Queue.Conn, cfg.Queue.Streams)
		if err != nil {
			return unreachable(cli.NameNATSFlags(err))
		}
		return nats(i, cfg.Queue.Streams.Replicas)
	}}
}

// inspectEmbedded inspects the embedded server of the service that uses the data directory, or returns nil: then the check
// of its address has the reason.
func inspectEmbedded(ctx context.Context, cfg serve.Config, listen string) *queue.Inspection {
	if holder, err := embedded.DataDirHolder(cfg.DataDir); err != nil || holder == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, embeddedTimeout)
	defer cancel()
	flags := cli.NATSFlags{NatsURL: "nats://" + listen, NatsToken: cfg.Queue.Server.Token}
	i, err := queue.Inspect(ctx, flags.PrivateConfig(cfg.DataDir), cfg.Queue.Streams)
	if err != nil {
		return nil
	}
	return i
}

// listeners are the addresses that the service listens on, except those with a free port.
func listeners(cfg serve.Config) []listener {
	overHTTP, overGRPC := httpService, grpcService
	if cfg.TLS.Enabled() {
		overHTTP, overGRPC = httpsService, grpcTLSService
	}
	all := []listener{
		{"--listen", cfg.Listen, overHTTP}, {"--ops-listen", cfg.OpsListen, overHTTP}, {"--grpc-listen", cfg.GRPCListen, overGRPC},
	}
	if cfg.Embedded() {
		all = append(all, listener{"--nats-listen", cfg.Queue.Server.Listen, natsService})
	}
	var given []listener
	for _, l := range all {
		if l.address != "" {
			given = append(given, l)
		}
	}
	return given
}
