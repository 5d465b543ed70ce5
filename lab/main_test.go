package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/lab/labtest"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

func TestMain(m *testing.M) { processtest.RunTests(m, labtest.Program[benchCmd]()) }

// lab runs a benchmark in this process.
func lab(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return labtest.Run(t, labProgram(), stdin, args...)
}

func TestVersionFlag(t *testing.T) {
	stdout, stderr, code := processtest.RunProgram(t, labProgram(), strings.NewReader(""), "--version")
	require.Equal(t, cli.ExitDone, code)
	require.Empty(t, stderr)
	require.Regexp(t, `(?m)^version +\S`, stdout)
	require.Contains(t, stdout, "libtorch")
}
