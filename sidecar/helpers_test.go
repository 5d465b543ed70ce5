package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/queue/queuetest"
	"assay/rewardmodel/checkpoint"
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
	cfg := checkpoint.Config{
		ModelType: checkpoint.Roberta, HiddenSize: 16, Layers: 2, Heads: 2, Intermediate: 32, Vocab: 8300,
		MaxPositions: 66, TypeVocab: 1, PadID: 1, LayerNormEps: 1e-5, HiddenAct: checkpoint.GELU, NumLabels: 2,
	}
	man := checkpoint.Manifest{
		Version: "tiny-1", Method: "none", Threshold: 0.6, Thresholds: map[string]float64{"max": 0.6, "mean": 0.4},
	}
	if edit != nil {
		edit(&cfg, &man)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(cfg, true) {
		n := 1
		for _, d := range spec.Shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(rng.NormFloat64()) * 0.4
			if strings.HasSuffix(spec.Name, "LayerNorm.weight") {
				values[i]++
			}
		}
		tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, values))
	}
	dir := filepath.Join(t.TempDir(), "tiny")
	files, err := checkpoint.TokenizerFiles(bpeFolder)
	require.NoError(t, err)
	require.NoError(t, checkpoint.Write(dir, cfg, man, tensors, files...))
	return dir
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
