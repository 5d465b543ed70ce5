package main

import (
	"os"
	"runtime"

	"github.com/alecthomas/kong"

	"assay/queue"
	"assay/sidecar/admin"
	"assay/sidecar/cli"
)

// commandLine is the command line: each field with cmd is a subcommand, each other a
// flag of all of them.
type commandLine struct {
	cli.GlobalFlags

	Serve    serveCmd       `cmd:"" help:"Run the service: scores over HTTP and NATS."`
	Score    scoreCmd       `cmd:"" help:"Score responses (JSONL in, JSONL out)."`
	Segment  segmentCmd     `cmd:"" help:"Cut texts into utterances (JSONL in, JSONL out)."`
	Tokenize tokenizeCmd    `cmd:"" help:"Turn texts into token ids (JSONL in, JSONL out)."`
	Bags     bagsCmd        `cmd:"" help:"Make bags to train and measure on, as the BFGPU paper does."`
	Pull     pullCmd        `cmd:"" help:"Fetch a checkpoint from a Hugging Face hub, verified and resumable."`
	Train    trainCmd       `cmd:"" help:"Train a model on responses with coarse labels."`
	Eval     evalCmd        `cmd:"" help:"Measure a model on labelled bags."`
	Gate     gateCmd        `cmd:"" help:"Decide whether a trained model may take the place of the one that serves."`
	Trainer  trainerCmd     `cmd:"" help:"Train on the feedback of services elsewhere, and score nothing."`
	Feedback admin.Feedback `cmd:"" help:"Send labels of responses to a running service, and more."`
	Models   admin.Models   `cmd:"" help:"List, show, promote or roll back the models of a running service."`
	Training admin.Training `cmd:"" help:"Start a training of a running service, or show it."`
	Health   healthCmd      `cmd:"" help:"Ask the service on this machine whether it is ready: the probe of an image without a shell."`
	Version  versionCmd     `cmd:"" help:"Show what this binary is made of."`
}

// assay is the program of this binary.
func assayProgram() cli.Program {
	return cli.Program{
		Name:        "assay",
		Description: "Compliance rewards and witness spans for the responses of language models.",
		New: func() (any, *cli.GlobalFlags) {
			c := &commandLine{}
			return c, &c.GlobalFlags
		},
		Options: []kong.Option{
			kong.Vars{"data_dir": cli.DefaultDataDir(os.Getenv, runtime.GOOS), "sync_interval": queue.RelaxedSync.String()},
			gateDefaults(),
		},
	}
}
