package main

import (
	"errors"
	"time"

	"assay/lab/bench/hostile"
	"assay/lab/flags"
	"assay/sidecar/cli"
)

// hostileCmd runs a memory exhaustion attack against a service.
type hostileCmd struct {
	Clients       int           `default:"64" help:"Hostile clients (${default})."`
	Baseline      time.Duration `default:"1m" help:"Time without the attack (${default})."`
	For           time.Duration `default:"5m" help:"Time of the attack (${default})."`
	Memory        cli.ByteSize  `default:"2GiB" placeholder:"BYTES" help:"Memory limit of the service, as in the chart (${default})."`
	GoMemLimit    string        `name:"gomemlimit" default:"1GiB" help:"GOMEMLIMIT of the service, as in the chart (${default})."`
	RequestMemory cli.ByteSize  `default:"512MiB" placeholder:"BYTES" help:"--request-memory of the service, as in the chart (${default})."`
	Cgroup        string        `placeholder:"DIR" help:"Memory cgroup in which one is created for the service. Default: that of this process."`
	flags.Assay
}

// Help is shown by --help.
func (*hostileCmd) Help() string {
	return `Example:

    assay-lab bench hostile --for 5m

Prints success rate and latency of honest clients without and with the attack, the outcomes of the attacks, and the peak
memory of the service. It fails if the service exits, or if a request gets a status from 500 on but 503 and 504, which
are documented. The cgroup needs root; without it only the resident memory is reported. It needs Linux.`
}

// Run is called by kong.
func (c *hostileCmd) Run(a *cli.App) error {
	if c.Clients < 1 || min(c.Baseline, c.For) <= 0 {
		return cli.Usage(errors.New("--clients, --baseline and --for must be positive"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	binary, err := c.Binary()
	if err != nil {
		return err
	}
	s := hostile.Settings{
		Assay: binary, Clients: c.Clients, Baseline: c.Baseline, Attack: c.For, Memory: int64(c.Memory), GoMemory: c.GoMemLimit,
		RequestMemory: int64(c.RequestMemory), Cgroup: c.Cgroup, Notify: func(message string) { a.Log.Info().Msg(message) },
	}
	if s.Cgroup == "" {
		s.Cgroup = hostile.OwnCgroup()
	}
	return hostile.Run(ctx, a.Stdout, s)
}
