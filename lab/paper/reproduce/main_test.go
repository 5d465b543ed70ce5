package reproduce

import (
	"testing"

	"assay/lab/labtest"
	"assay/sidecar/processtest"
)

// benches are the commands of this package, of which one is the child process of the other.
type benches struct {
	Paper    Command    `cmd:""`
	PaperRun RunCommand `cmd:""`
}

func TestMain(m *testing.M) { processtest.RunTests(m, labtest.Program[benches]()) }
