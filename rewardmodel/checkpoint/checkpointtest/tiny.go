// Package checkpointtest makes checkpoints for tests of other packages.
package checkpointtest

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/checkpoint"
)

// Tiny writes a checkpoint with random weights and the tokenizer of a directory, and returns its directory. Its scores
// mean nothing, but are the same everywhere and differ from text to text. edit, unless it is nil, changes the
// configuration and the manifest first.
func Tiny(t testing.TB, tokenizer string, edit func(*checkpoint.Config, *checkpoint.Manifest)) string {
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
	files, err := checkpoint.TokenizerFiles(tokenizer)
	require.NoError(t, err)
	require.NoError(t, checkpoint.Write(dir, cfg, man, tensors, files...))
	return dir
}
