package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// bothCommands are the commands of both binaries: in child processes, the test binary is assay and assay-lab.
type bothCommands struct {
	program.Commands
	Bench benchCmd `cmd:""`
}

func TestMain(m *testing.M) {
	p := program.Assay()
	p.New = func() (any, *cli.GlobalFlags) {
		c := &bothCommands{}
		return c, &c.GlobalFlags
	}
	processtest.RunTests(m, p)
}

// lab runs a benchmark in this process. The service that it may start is the test binary.
func lab(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Setenv(processtest.ChildVariable, "1")
	t.Setenv("ASSAY_ASSAY", os.Args[0])
	return processtest.RunProgram(t, labProgram(), strings.NewReader(stdin), append([]string{"bench"}, args...)...)
}

func TestVersionFlag(t *testing.T) {
	stdout, stderr, code := processtest.RunProgram(t, labProgram(), strings.NewReader(""), "--version")
	require.Equal(t, cli.ExitDone, code)
	require.Empty(t, stderr)
	require.Regexp(t, `(?m)^version +\S`, stdout)
	require.Contains(t, stdout, "libtorch")
}
