package processtest

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/checkpoint"
)

// Timeout is the timeout of every wait in a test.
const Timeout = time.Minute

// BPEDir is a directory with a small vocabulary in RoBERTa's format.
func BPEDir(t testing.TB) string {
	t.Helper()
	dir, err := bpeDir()
	require.NoError(t, err)
	return dir
}

// bpeDir finds the directory in the checkout, which the tests run in.
func bpeDir() (string, error) {
	dir, err := filepath.Abs(".")
	for err == nil {
		text, failed := os.ReadFile(filepath.Join(dir, "go.mod"))
		if failed == nil && strings.HasPrefix(string(text), "module assay\n") {
			return filepath.Join(dir, "rewardmodel/tokenizer/testdata/bpe"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not in a checkout")
		}
		dir = parent
	}
	return "", err
}

// TinyModel writes a checkpoint with random weights to a temporary directory, which it returns; edit, if not nil, changes
// its configuration. See WriteTinyModel.
func TinyModel(t testing.TB, edit func(*checkpoint.Config, *checkpoint.Manifest)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tiny")
	require.NoError(t, WriteTinyModel(dir, edit))
	return dir
}

// WriteTinyModel writes a checkpoint with random weights to dir, which must not exist yet. Its scores are meaningless,
// but deterministic and different for every text.
func WriteTinyModel(dir string, edit func(*checkpoint.Config, *checkpoint.Manifest)) error {
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
	vocabulary, err := bpeDir()
	if err != nil {
		return err
	}
	files, err := checkpoint.TokenizerFiles(vocabulary)
	if err != nil {
		return err
	}
	return checkpoint.Write(dir, cfg, man, tensors, files...)
}
