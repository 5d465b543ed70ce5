package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// app is what a command works with beside its own flags.
type app struct {
	ctx      context.Context
	program  string // as it was called, to be pasted in examples
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	log      zerolog.Logger
	settings *settings // nil without --config
	json     bool      // logs are JSON because the user said so: nothing else goes to stderr
}

// run is the program: args[0] is its name. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout = &output{w: stdout}
	c := &cli{}
	parser, err := newParser(c, stdout, stderr)
	if err != nil {
		return fail(stderr, err)
	}
	parsed, err := parser.Parse(args[1:])
	if errors.Is(err, errHelp) {
		return exitDone
	}
	if err != nil {
		return fail(stderr, usageError{fmt.Errorf("%w\nRun %s --help", err, commandOf(args))})
	}
	level := &logLevel{}
	a := &app{
		ctx: ctx, program: args[0], stdin: stdin, stdout: stdout, stderr: stderr,
		log: c.logger(stderr, level), json: c.LogFormat == formatJSON,
	}
	if c.Config != "" {
		a.settings = newSettings(string(c.Config), args[1:], parsed, level, a.log)
	}
	err = parsed.Run(a)
	code := exitCode(err)
	if code != exitDone {
		a.log.Error().Msg(err.Error())
	}
	return code
}

func fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "assay: %v\n", err)
	return exitCode(err)
}

// commandOf is the part of the command line that --help can follow.
func commandOf(args []string) string {
	if len(args) > 1 && len(args[1]) > 0 && args[1][0] != '-' {
		return "assay " + args[1]
	}
	return "assay"
}

// untilSignal ends the context at the first SIGINT or SIGTERM, for commands
// that have something to finish. A second signal ends the process at once.
func (a *app) untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(a.ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
