package main

import (
	"strings"
	"testing"

	"assay/sidecar/processtest"
)

func TestMain(m *testing.M) {
	processtest.RunTests(m, binaryProgram())
}

// assay runs a command in this process.
func assay(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return processtest.RunProgram(t, binaryProgram(), strings.NewReader(stdin), args...)
}
