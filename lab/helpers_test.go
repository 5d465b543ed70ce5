package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/queue/queuetest"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/checkpoint/checkpointtest"
)

// childVariable makes the test binary be assay-lab itself, for the runs of bench paper.
const childVariable = "TEST_BINARY_IS_ASSAY_LAB"

func TestMain(m *testing.M) {
	if queuetest.Node() {
		return
	}
	if os.Getenv(childVariable) != "" {
		main()
	}
	dir, err := os.MkdirTemp("", "assay-lab-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildAssay = sync.OnceValues(func() (string, error) { return goBuild(dir) })
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// buildAssay builds the product, which the benchmarks start, once.
var buildAssay func() (string, error)

func goBuild(dir string) (string, error) {
	binary := filepath.Join(dir, "assay")
	out, err := exec.Command("go", "build", "-o", binary, "../sidecar").CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return binary, err
}

// assayBinary is the path of the product.
func assayBinary(t *testing.T) string {
	t.Helper()
	binary, err := buildAssay()
	require.NoError(t, err)
	return binary
}

// lab runs a command in this process.
func lab(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, log bytes.Buffer
	code = program().Run(context.Background(), append([]string{"assay-lab", "bench"}, args...), strings.NewReader(stdin), &out, &log)
	return out.String(), log.String(), code
}

func tinyModel(t *testing.T, edit func(*checkpoint.Config, *checkpoint.Manifest)) string {
	t.Helper()
	return checkpointtest.Tiny(t, "../rewardmodel/tokenizer/testdata/bpe", edit)
}

// bagFile writes bags of two sentences; every other one has an insult.
func bagFile(t *testing.T, bags int) string {
	t.Helper()
	var b strings.Builder
	for i := range bags {
		label, second := "compliant", "Have a good trip."
		if i%2 == 1 {
			label, second = "violation", "You fool."
		}
		fmt.Fprintf(&b, `{"id":"b%d","label":"%s","response":"Train %d leaves at noon. %s"}`+"\n", i, label, i, second)
	}
	path := filepath.Join(t.TempDir(), "bags.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}
