package childproc_test

import (
	"testing"

	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

func TestMain(m *testing.M) { processtest.RunTests(m, program.Assay()) }
