package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/queue/queuetest"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/checkpoint/checkpointtest"
)

// childVariable makes the test binary be assay itself, and its child processes too: its name is none that a child is
// kept from.
const childVariable = "TEST_BINARY_IS_ASSAY"

func TestMain(m *testing.M) {
	if queuetest.Node() {
		return
	}
	if os.Getenv(childVariable) != "" {
		if fault := os.Getenv(faultVariable); fault != "" {
			os.Exit(serveFaulty(fault))
		}
		main()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test.
const patience = time.Minute

// bpeFolder holds a small vocabulary in RoBERTa's form.
const bpeFolder = "../rewardmodel/tokenizer/testdata/bpe"

// tinyModel writes a checkpoint with random weights. Its scores mean nothing,
// but are the same everywhere and differ from text to text.
func tinyModel(t testing.TB, edit func(*checkpoint.Config, *checkpoint.Manifest)) string {
	t.Helper()
	return checkpointtest.Tiny(t, bpeFolder, edit)
}

// assay runs a command in this process.
func assay(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return assayFrom(t, strings.NewReader(stdin), args...)
}

func assayFrom(t testing.TB, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, log bytes.Buffer
	code = assayProgram().Run(context.Background(), append([]string{"assay"}, args...), stdin, &out, &log)
	return out.String(), log.String(), code
}

// golden reads a file of testdata.
func golden(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

// update writes a golden file when UPDATE_GOLDEN is set.
func update(t testing.TB, name, content string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(filepath.Join("testdata", name), []byte(content), 0o644))
	}
}
