// Package labtest runs benchmarks in the tests of their packages. It does not depend on what they measure.
package labtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// commands are those of both binaries.
type commands[B any] struct {
	program.Commands
	Bench B `cmd:""`
}

// Program has the commands of assay, and the benchmarks B, a struct of commands. Give it to processtest.RunTests: in child
// processes, the test binary is assay and assay-lab.
func Program[B any]() cli.Program {
	p := program.Assay()
	p.New = func() (any, *cli.GlobalFlags) {
		c := &commands[B]{}
		return c, &c.GlobalFlags
	}
	return p
}

// Run runs a benchmark of p in this process. The service that it may start is the test binary.
func Run(t *testing.T, p cli.Program, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Setenv(processtest.ChildVariable, "1")
	t.Setenv("ASSAY_ASSAY", os.Args[0])
	return processtest.RunProgram(t, p, strings.NewReader(stdin), append([]string{"bench"}, args...)...)
}

// Texts writes texts for the benchmarks that start the service, as JSONL.
func Texts(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "texts.jsonl")
	var lines strings.Builder
	for i := range 40 {
		lines.WriteString(`{"text":"The film ` + strconv.Itoa(i) + ` was long. I liked it! It ended after ` + strconv.Itoa(i) + ` hours."}` + "\n")
	}
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	return path
}
