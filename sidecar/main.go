// Command assay gives the responses of a language model a compliance reward
// and points at the most anomalous span of each.
//
// It is one binary with subcommands; "assay CMD --help" shows an example of
// each. Data goes to standard output, logs to standard error. It exits with 0
// when done, 1 when it failed, and 2 for wrong usage or bad input.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"assay/sidecar/program"
)

func main() {
	// A closed standard output is then an error of the write, not our death.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(program.Assay().Run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}
