package program_test

import (
	"flag"
	"io"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"assay/internal/reference"
	"assay/sidecar/program"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

// root is the root of the repository.
const root = "../.."

func TestReferenceOfTheCommandLine(t *testing.T) {
	p := program.Assay()
	p.Options = append(p.Options, kong.Vars{"data_dir": "DATA_DIR"}) // it depends on the user
	parser, err := p.Parser(&program.Commands{}, io.Discard, io.Discard)
	require.NoError(t, err)
	reference.Check(t, root, "cli.md", reference.CommandLine(parser.Model, "Command line",
		"`assay` writes data to standard output and logs to standard error. It exits with 0 when done, 1 when it failed, "+
			"and 2 for wrong usage or bad input. `DATA_DIR` is `$XDG_DATA_HOME/assay`, or `~/.local/share/assay` "+
			"(`~/Library/Application Support/assay` on macOS, `%LocalAppData%\\assay` on Windows), or `./assay-data` for a user "+
			"without a home. The benchmarks have [a program of their own](cli-lab.md)."), *update)
}
