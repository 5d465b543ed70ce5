package commands_test

import (
	"strings"
	"testing"

	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

func TestMain(m *testing.M) { processtest.RunTests(m, program.Assay()) }

// assay runs a command in this process.
func assay(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return processtest.RunProgram(t, program.Assay(), strings.NewReader(stdin), args...)
}
