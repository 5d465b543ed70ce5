package main

import (
	"io"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	runTests(m, binaryProgram())
}

// assay runs a command in this process.
func assay(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runProgram(t, binaryProgram(), strings.NewReader(stdin), args...)
}

func assayFrom(t testing.TB, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runProgram(t, binaryProgram(), stdin, args...)
}
