// Command assay-lab measures assay and reproduces the experiments of the BFGPU paper. It is not part of the product:
// what it measures is the assay binary, which it starts as a process, or a running service.
//
// Like assay, it writes data to standard output and logs to standard error, and exits with 0 when done, 1 when it
// failed, and 2 for wrong usage or bad input. "assay-lab bench CMD --help" shows an example of each command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"assay/lab/fleet"
	"assay/lab/live"
	"assay/lab/paper/reproduce"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

func main() {
	// A closed standard output is then an error of the write and does not kill the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(labProgram().Run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// commandLine is the command line: each field with cmd is a subcommand.
type commandLine struct {
	cli.GlobalFlags

	Bench  benchCmd  `cmd:"" help:"Measure assay alone or alongside other reward servers, or reproduce the experiments of the paper."`
	Report reportCmd `cmd:"" help:"Write a report on how well a model scores labeled responses, compared with baselines."`
}

// benchCmd groups the benchmarks.
type benchCmd struct {
	Serving    servingCmd           `cmd:"" help:"Load a running service and print responses per second and latencies."`
	Latency    latencyCmd           `cmd:"" help:"Start assay and measure its start, the overhead over an idle forward pass, and the latency under load."`
	Live       live.Command         `cmd:"" help:"Measure live scoring: where it stops responses, and its delay with many streams."`
	Soak       soakCmd              `cmd:"" help:"Start assay, load it for minutes, and print its memory."`
	Hostile    hostileCmd           `cmd:"" help:"Attack the memory of a service in a cgroup while honest clients measure how they are served."`
	Peers      peersCmd             `cmd:"" help:"Compare the speed of assay with that of other reward servers."`
	Fleet      fleet.Command        `cmd:"" help:"Size a fleet: measure a replica and its NATS, load a fleet, simulate many replicas."`
	Train      trainCmd             `cmd:"" help:"Take the same training steps as PyTorch and compare the speed."`
	Candidates candidatesCmd        `cmd:"" help:"Compare labels of the responses that the service suggests with labels of random responses."`
	Aspects    aspectsCmd           `cmd:"" help:"Compare a model with two aspects with models of one, on synthetic bags."`
	Paper      reproduce.Command    `cmd:"" help:"Reproduce the experiments of the BFGPU paper."`
	PaperRun   reproduce.RunCommand `cmd:"" hidden:""`
}

// labProgram is the program of this binary.
func labProgram() cli.Program {
	return cli.Program{
		Name:        "assay-lab",
		Description: "Benchmarks of assay, and the experiments of the BFGPU paper.",
		New: func() (any, *cli.GlobalFlags) {
			c := &commandLine{}
			return c, &c.GlobalFlags
		},
		Version:  localmodel.WriteVersion,
		Defaults: []kong.Vars{localmodel.Defaults()},
	}
}
