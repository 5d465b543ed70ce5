package consoletest_test

import (
	"flag"
	"testing"

	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// shippedModel is the model that the tests serve.
const shippedModel = "../../models/default"

var update = flag.Bool("update", false, "write the screenshots of docs/console")

func TestMain(m *testing.M) { processtest.RunTests(m, program.Assay()) }
