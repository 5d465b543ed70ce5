package main

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/reference"
)

var update = flag.Bool("update", false, "write the page of docs/reference")

func TestReferenceOfTheCommandLine(t *testing.T) {
	parser, err := labProgram().Parser(&commandLine{}, io.Discard, io.Discard)
	require.NoError(t, err)
	reference.Check(t, "..", "cli-lab.md", reference.CommandLine(parser.Model, "Command line of assay-lab",
		"`make lab` builds `bin/assay-lab`, which measures `assay` and reproduces the experiments of the BFGPU paper. It is "+
			"not part of the product. Output, logs and exit codes are as those of [assay](cli.md)."), *update)
}
