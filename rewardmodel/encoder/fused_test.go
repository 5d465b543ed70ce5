package encoder

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// TestFused compares the layers that score on a CPU with those that are trained, on a batch of sequences of all lengths,
// for every activation function, with a head size that is not a multiple of a vector, and with one and several threads.
func TestFused(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		hidden, heads, feed int
		act                 string
	}{
		{16, 2, 24, checkpoint.GELU}, {48, 4, 96, checkpoint.GELUTanh}, {60, 3, 100, checkpoint.ReLU}, {128, 2, 512, checkpoint.GELU},
	} {
		dir := randomCheckpoint(t, rng, c.hidden, c.heads, c.feed, c.act)
		compareFused(t, rng, dir, fmt.Sprint(c), 4e-2)
	}
}

// compareFused compares both layouts of a checkpoint; bf16 is the tolerance of margins in bf16.
func compareFused(t *testing.T, rng *rand.Rand, dir, what string, bf16 float64) {
	t.Helper()
	for _, threads := range []int{1, 3} {
		r, err := NewRuntime(RuntimeOptions{Threads: threads, Device: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		for p, tolerance := range map[Precision]float64{FP32: 2e-5, BF16: bf16} {
			plain, fused := loadPlain(t, r, dir, p), loadModel(t, r, dir, p)
			if fused.fused == nil {
				t.Logf("%s is not fused here", p)
				continue
			}
			var batch []rewardmodel.Sequence
			for n := 1; n <= fused.MaxLength(); n += 1 + n/9 {
				seq := make([]int32, n)
				for i := range seq {
					seq[i] = int32(rng.IntN(plain.net.cfg.Vocab))
				}
				batch = append(batch, rewardmodel.Sequence{IDs: seq})
			}
			want, err := plain.Margins(batch)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fused.Margins(batch)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if d := math.Abs(float64(got[i] - want[i])); !(d <= tolerance) {
					t.Errorf("%s, %d threads, %s, %d tokens: margin %v, want %v", what, threads, p, len(batch[i].IDs), got[i], want[i])
				}
			}
		}
	}
}

// randomCheckpoint writes a RoBERTa with two layers, large random weights and the given aspects; with several it also
// reads contexts.
func randomCheckpoint(t *testing.T, rng *rand.Rand, hidden, heads, feed int, act string, aspects ...string) string {
	t.Helper()
	cfg := openCheckpoint(t, "../checkpoint/testdata/roberta-two").Config
	man := checkpoint.Manifest{Version: "random", Threshold: 0.5}
	if len(aspects) > 0 {
		cfg.NumLabels, cfg.Labels, cfg.TypeVocab, man.Context = 2*len(aspects), checkpoint.AspectLabels(aspects), 2, true
	}
	cfg.HiddenSize, cfg.Heads, cfg.Intermediate, cfg.HiddenAct, cfg.Layers, cfg.MaxPositions = hidden, heads, feed, act, 2, 200
	return writeRandom(t, rng, cfg, man)
}

// writeRandom writes a checkpoint with large random weights.
func writeRandom(t *testing.T, rng *rand.Rand, cfg checkpoint.Config, man checkpoint.Manifest) string {
	t.Helper()
	var tensors []checkpoint.Tensor
	for _, s := range checkpoint.Specs(cfg, true) {
		n := 1
		for _, d := range s.Shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(rng.NormFloat64()) / float32(math.Sqrt(float64(s.Shape[len(s.Shape)-1])))
			if len(s.Shape) == 1 {
				values[i] = 1 + 0.2*float32(rng.NormFloat64())
			}
		}
		tensors = append(tensors, checkpoint.Tensor{Name: s.Name, DType: checkpoint.F32, Shape: s.Shape, WriteTo: func(w io.Writer) error {
			_, err := w.Write(asBytes(values))
			return err
		}})
	}
	dir := filepath.Join(t.TempDir(), "model")
	if err := checkpoint.Write(dir, cfg, man, tensors); err != nil {
		t.Fatal(err)
	}
	return dir
}
