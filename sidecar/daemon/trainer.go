package daemon

import (
	"context"
	"errors"
	"sync"

	"assay/queue"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
	"assay/sidecar/localmodel"
	"assay/sidecar/traces"
)

// Trainer runs training jobs for services on other machines, and does not score.
type Trainer struct {
	DataDir   string `default:"${data_dir}" placeholder:"DIR" help:"Directory for training runs and fetched models (${default})."`
	OpsListen string `placeholder:"HOST:PORT" help:"Listen address for health and metrics, and for profiles (/debug/pprof/), which need a caller on this machine."`

	localmodel.Flags `group:"Model:"`
	cli.NATSFlags    `group:"NATS:"`
	streamFlags      `group:"NATS streams (0: keep the value of an existing stream; default for a new one):"`
	RetrainFlags     `group:"Training:"`
}

// Help is shown by --help.
func (*Trainer) Help() string {
	return `Example:

    assay serve --no-train --nats-url nats://nats:4222      # on every machine that scores
    assay trainer --nats-url nats://nats:4222               # on the machine that trains

Trains on the feedback that the services receive, and promotes candidates that pass the gate. Give it the same --model
as the services. Of several trainers, one is active at a time; another takes over when its heartbeats stop.

Exports traces over OTLP if OTEL_EXPORTER_OTLP_ENDPOINT is set, as the other OTEL_* variables configure it.`
}

// Run is called by kong.
func (c *Trainer) Run(a *cli.App) error {
	if c.NatsURL == "" {
		return cli.Usage(errors.New("--nats-url is missing; give the URL that the services use, for example nats://nats:4222"))
	}
	if err := c.RetrainFlags.Check(); err != nil {
		return cli.Usage(err)
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	watching, unwatch := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { a.Settings.Watch(watching, nil) })
	defer watched.Wait()
	defer unwatch()
	return cli.NameNATSFlags(fleet.RunTrainer(ctx, fleet.TrainerConfig{
		Model: c.Flags.Config(), Training: c.RetrainFlags.Config(), DataDir: c.DataDir, OpsListen: c.OpsListen, Traces: traces.Configured(),
		Queue: queue.Config{Conn: c.NATSFlags.PrivateConfig(c.DataDir), Streams: c.streamFlags.config()},
	}, a.Log))
}
