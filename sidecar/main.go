// Command assay scores the responses of a language model with a compliance reward
// and locates the most anomalous span of each.
//
// It is one binary with subcommands; "assay CMD --help" shows an example of
// each. Data goes to standard output, logs to standard error. It exits with 0
// on success, 1 on failure, and 2 for a usage error or invalid input.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"assay/sidecar/program"
)

func main() {
	// A closed standard output then fails the write instead of killing the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(program.Assay().Run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}
