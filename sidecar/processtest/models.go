package processtest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/checkpoint"
)

// Patience bounds every wait of a test.
const Patience = time.Minute

// BPEDir holds a small vocabulary in RoBERTa's form.
func BPEDir(t testing.TB) string { return filepath.Join(Root(t), "rewardmodel/tokenizer/testdata/bpe") }

// Root is the directory of the checkout.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	require.NoError(t, err)
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module assay\n") {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "the tests do not run in a checkout")
		dir = parent
	}
}

// TinyModel writes a checkpoint with random weights. Its scores mean nothing,
// but are the same everywhere and differ from text to text.
func TinyModel(t testing.TB, edit func(*checkpoint.Config, *checkpoint.Manifest)) string {
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
	files, err := checkpoint.TokenizerFiles(BPEDir(t))
	require.NoError(t, err)
	require.NoError(t, checkpoint.Write(dir, cfg, man, tensors, files...))
	return dir
}
