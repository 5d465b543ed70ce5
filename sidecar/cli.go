package main

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"assay/queue"
)

// cli is the command line: each field with cmd is a subcommand, each other a
// flag of all of them.
type cli struct {
	Help      helpFlag   `short:"h" help:"Show help."`
	Config    configFlag `placeholder:"FILE.yaml" help:"Read flags from a YAML file, one key a flag. A flag wins over the environment, and that over the file."`
	LogLevel  string     `default:"info" enum:"trace,debug,info,warn,error" help:"Least severe log line (${enum})."`
	LogFormat string     `default:"auto" enum:"auto,console,json" help:"Form of the logs on standard error (${enum}); auto: console on a terminal, else JSON."`

	Serve    serveCmd    `cmd:"" help:"Run the service: scores over HTTP and NATS."`
	Score    scoreCmd    `cmd:"" help:"Score responses (JSONL in, JSONL out)."`
	Segment  segmentCmd  `cmd:"" help:"Cut texts into utterances (JSONL in, JSONL out)."`
	Tokenize tokenizeCmd `cmd:"" help:"Turn texts into token ids (JSONL in, JSONL out)."`
	Bags     bagsCmd     `cmd:"" help:"Make bags to train and measure on, as the BFGPU paper does."`
	Pull     pullCmd     `cmd:"" help:"Fetch a checkpoint from a Hugging Face hub, verified and resumable."`
	Train    trainCmd    `cmd:"" help:"Train a model on responses with coarse labels."`
	Eval     evalCmd     `cmd:"" help:"Measure a model on labelled bags."`
	Gate     gateCmd     `cmd:"" help:"Decide whether a trained model may take the place of the one that serves."`
	Trainer  trainerCmd  `cmd:"" help:"Train on the feedback of services elsewhere, and score nothing."`
	Feedback feedbackCmd `cmd:"" help:"Send labels of responses to a running service, and more."`
	Models   modelsCmd   `cmd:"" help:"List, show, promote or roll back the models of a running service."`
	Training trainingCmd `cmd:"" help:"Start a training of a running service, or show it."`
	Bench    benchCmd    `cmd:"" help:"Measure a running service, or it and others."`
	Health   healthCmd   `cmd:"" help:"Ask the service on this machine whether it is ready: the probe of an image without a shell."`
	Version  versionCmd  `cmd:"" help:"Show what this binary is made of."`
}

// The forms of the logs.
const (
	formatAuto    = "auto"
	formatConsole = "console"
	formatJSON    = "json"
)

func newParser(c *cli, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("assay"),
		kong.Description("Compliance rewards and witness spans for the responses of language models."),
		kong.Vars{"data_dir": defaultDataDir(os.Getenv, runtime.GOOS), "sync_interval": queue.RelaxedSync.String()},
		gateDefaults(),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Writers(stdout, stderr),
		kong.PostBuild(nameEnvironment),
	)
}

// nameEnvironment gives every flag its variable, ASSAY_<FLAG>.
func nameEnvironment(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.Name != "help" {
			flag.Envs = []string{environmentName(flag.Name)}
			flag.Tag.Envs = flag.Envs
		}
		return next(nil)
	})
}

func environmentName(flag string) string {
	return "ASSAY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// errHelp says that the help was shown, which is all that was asked.
var errHelp = errors.New("help was shown")

// helpFlag shows the help of the command that it is given to.
type helpFlag bool

// BeforeReset is called by kong when the flag is present.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}

func (c *cli) logger(w io.Writer, level *logLevel) zerolog.Logger {
	level.set(c.LogLevel)
	if c.LogFormat == formatConsole || c.LogFormat == formatAuto && isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05", NoColor: !isTerminal(w) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(shortLines{w}).Sample(level).With().Timestamp().Logger()
}

func isTerminal(stream any) bool {
	if o, ok := stream.(*output); ok {
		stream = o.w
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
