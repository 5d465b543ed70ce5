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

// Commands is the command line: each field with the tag cmd is a subcommand, the
// other fields are flags of all subcommands.
type Commands struct {
	cli.GlobalFlags

	Serve      daemon.Serve        `cmd:"" help:"Run the service that scores over HTTP and NATS."`
	Proxy      daemon.Proxy        `cmd:"" help:"Guard an OpenAI-compatible server: score what it writes, while it writes."`
	Score      commands.Score      `cmd:"" help:"Score responses (JSONL in, JSONL out)."`
	Segment    commands.Segment    `cmd:"" help:"Split texts into utterances (JSONL in, JSONL out)."`
	Tokenize   commands.Tokenize   `cmd:"" help:"Convert texts to token IDs (JSONL in, JSONL out)."`
	Bags       commands.Bags       `cmd:"" help:"Make bags for training and evaluation, as in the BFGPU paper."`
	Pull       commands.Pull       `cmd:"" help:"Download a checkpoint from a Hugging Face hub, verified and resumable."`
	Train      commands.Train      `cmd:"" help:"Train a model on responses with coarse labels."`
	Eval       commands.Eval       `cmd:"" help:"Evaluate a model on labeled bags."`
	Report     commands.Report     `cmd:"" help:"Describe scored responses: distributions, worst witnesses, agreement with labels, differences of versions."`
	Gate       commands.Gate       `cmd:"" help:"Decide whether a candidate model may replace the current one."`
	Trainer    daemon.Trainer      `cmd:"" help:"Train on the feedback of services on other machines, without scoring."`
	Feedback   feedback            `cmd:"" help:"Send, inspect, erase, verify, export or import labels."`
	Models     admin.Models        `cmd:"" help:"List, show, promote or roll back the models of a running service."`
	Training   admin.Training      `cmd:"" help:"Start or show training runs of a running service."`
	Doctor     daemon.Doctor       `cmd:"" help:"Check whether this machine and its configuration can run the service."`
	Health     commands.Health     `cmd:"" help:"Probe the service on this machine, for container images without a shell."`
	Version    commands.Version    `cmd:"" help:"Show version and build information."`
	Completion commands.Completion `cmd:"" help:"Print the completion script of a shell."`
}

// feedback has the commands over HTTP and those over NATS.
type feedback struct {
	admin.Feedback
	commands.FeedbackStore
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
		Version: localmodel.WriteVersion,
		Defaults: []kong.Vars{
			{"data_dir": cli.DefaultDataDir(os.Getenv, runtime.GOOS)},
			localmodel.Defaults(), commands.Defaults(), daemon.Defaults(),
		},
	}
}
