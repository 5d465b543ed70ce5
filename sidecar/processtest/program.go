package processtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"assay/queue/queuetest"
	"assay/sidecar/cli"
)

// ChildVariable makes a test binary the program that TestMain gives to runTests, and its child processes too: no child
// process is started without it.
const ChildVariable = "TEST_BINARY_IS_ASSAY"

// RunTests runs the tests of a package, or p in a child process of a test. Call it in TestMain.
func RunTests(m *testing.M, p cli.Program) {
	if queuetest.Node() {
		return
	}
	if os.Getenv(ChildVariable) != "" {
		signal.Ignore(syscall.SIGPIPE)
		os.Exit(p.Run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// RunProgram runs a command line in this process.
func RunProgram(t testing.TB, p cli.Program, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, log bytes.Buffer
	code = p.Run(context.Background(), append([]string{p.Name}, args...), stdin, &out, &log)
	return out.String(), log.String(), code
}
