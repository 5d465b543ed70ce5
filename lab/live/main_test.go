package live

import (
	"testing"

	"assay/lab/labtest"
	"assay/sidecar/processtest"
)

// benches are the commands of this package.
type benches struct {
	Live Command `cmd:""`
}

func TestMain(m *testing.M) { processtest.RunTests(m, labtest.Program[benches]()) }

// run runs a benchmark in this process.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return labtest.Run(t, labtest.Program[benches](), stdin, args...)
}
