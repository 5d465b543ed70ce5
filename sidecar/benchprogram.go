package main

import (
	"assay/sidecar/cli"
	"assay/sidecar/program"
)

// withBench are the commands of assay and the benchmarks.
type withBench struct {
	program.Commands
	Bench benchCmd `cmd:"" help:"Measure a running service, or it and others."`
}

// binaryProgram is the program of this binary.
func binaryProgram() cli.Program {
	p := program.Assay()
	p.New = func() (any, *cli.GlobalFlags) {
		c := &withBench{}
		return c, &c.GlobalFlags
	}
	return p
}
