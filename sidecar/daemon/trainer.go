package daemon

import (
	"context"
	"errors"
	"sync"

	"assay/queue"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
	"assay/sidecar/localmodel"
)

// Trainer trains for services elsewhere, on machines that score nothing.
type Trainer struct {
	DataDir   string `default:"${data_dir}" placeholder:"DIR" help:"Directory for training runs and fetched models (${default})."`
	OpsListen string `placeholder:"HOST:PORT" help:"Serve health and metrics there."`

	localmodel.Flags `group:"Model:"`
	cli.NATSFlags    `group:"NATS:"`
	streamFlags      `group:"NATS streams (0: as it is, or the default of a new stream):"`
	RetrainFlags     `group:"Training:"`
}

// Help is shown by --help.
func (*Trainer) Help() string {
	return `Example:

    assay serve --no-train --nats-url nats://nats:4222      # on every machine that scores
    assay trainer --nats-url nats://nats:4222               # on the one that trains

Trains on the feedback that services take, and promotes what passes the gate. Give it the same --model as the services.
Of several trainers one works at a time, and another takes over when it falls silent.`
}

// Run is called by kong.
func (c *Trainer) Run(a *cli.App) error {
	if c.NatsURL == "" {
		return cli.Usage(errors.New("--nats-url is missing; give that of the services, such as nats://nats:4222"))
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
		Model: c.Flags.Config(), Training: c.RetrainFlags.Config(), DataDir: c.DataDir, OpsListen: c.OpsListen,
		Queue: queue.Config{Conn: c.NATSFlags.PrivateConfig(c.DataDir), Streams: c.streamFlags.config()},
	}, a.Log))
}
