// Package program is the command tree of assay.
package program

import (
	"os"
	"runtime"

	"github.com/alecthomas/kong"

	"assay/sidecar/admin"
	"assay/sidecar/cli"
	"assay/sidecar/commands"
	"assay/sidecar/daemon"
	"assay/sidecar/localmodel"
)

// Commands is the command line: each field with cmd is a subcommand, each other a
// flag of all of them.
type Commands struct {
	cli.GlobalFlags

	Serve      daemon.Serve        `cmd:"" help:"Run the service: scores over HTTP and NATS."`
	Score      commands.Score      `cmd:"" help:"Score responses (JSONL in, JSONL out)."`
	Segment    commands.Segment    `cmd:"" help:"Cut texts into utterances (JSONL in, JSONL out)."`
	Tokenize   commands.Tokenize   `cmd:"" help:"Turn texts into token ids (JSONL in, JSONL out)."`
	Bags       commands.Bags       `cmd:"" help:"Make bags to train and measure on, as the BFGPU paper does."`
	Pull       commands.Pull       `cmd:"" help:"Fetch a checkpoint from a Hugging Face hub, verified and resumable."`
	Train      commands.Train      `cmd:"" help:"Train a model on responses with coarse labels."`
	Eval       commands.Eval       `cmd:"" help:"Measure a model on labelled bags."`
	Gate       commands.Gate       `cmd:"" help:"Decide whether a trained model may take the place of the one that serves."`
	Trainer    daemon.Trainer      `cmd:"" help:"Train on the feedback of services elsewhere, and score nothing."`
	Feedback   admin.Feedback      `cmd:"" help:"Send labels of responses to a running service, and more."`
	Models     admin.Models        `cmd:"" help:"List, show, promote or roll back the models of a running service."`
	Training   admin.Training      `cmd:"" help:"Start a training of a running service, or show it."`
	Health     commands.Health     `cmd:"" help:"Ask the service on this machine whether it is ready: the probe of an image without a shell."`
	Version    commands.Version    `cmd:"" help:"Show what this binary is made of."`
	Completion commands.Completion `cmd:"" help:"Print the completion script of a shell."`
}

// Assay is the program of this binary.
func Assay() cli.Program {
	return cli.Program{
		Name:        "assay",
		Description: "Compliance rewards and witness spans for the responses of language models.",
		New: func() (any, *cli.GlobalFlags) {
			c := &Commands{}
			return c, &c.GlobalFlags
		},
		Options: []kong.Option{
			kong.Vars{"data_dir": cli.DefaultDataDir(os.Getenv, runtime.GOOS)},
			localmodel.Defaults(), commands.Defaults(), daemon.Defaults(),
		},
	}
}
