package encoder

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

func TestModernBertStepsEqualPyTorch(t *testing.T) { compareSteps(t, "testdata/modernbert_steps.json") }

func TestModernBertLearns(t *testing.T) {
	learns(t, "modernbert-mean")
	if !testing.Short() {
		learns(t, "modernbert-two", "modernbert-mlm", "modernbert-model")
	}
}

// modernShape is what TestModernBertFused varies.
type modernShape struct {
	hidden, heads, feed, layers, window int
	act                                 string
	mean                                bool
}

// randomModern writes a ModernBERT with large random weights for up to 200 tokens.
func randomModern(t *testing.T, rng *rand.Rand, shape modernShape) string {
	t.Helper()
	cfg := openCheckpoint(t, "../checkpoint/testdata/modernbert-two").Config
	cfg.HiddenSize, cfg.Heads, cfg.Intermediate, cfg.HiddenAct = shape.hidden, shape.heads, shape.feed, shape.act
	cfg.Layers, cfg.MaxPositions = shape.layers, 200
	cfg.Modern.LocalAttention, cfg.Modern.MeanPooling = shape.window, shape.mean
	cfg.Modern.Local = make([]bool, shape.layers)
	for i := range cfg.Modern.Local {
		cfg.Modern.Local[i] = i%3 != 0
	}
	return writeRandom(t, rng, cfg, checkpoint.Manifest{Version: "random", Threshold: 0.5})
}

func TestModernBertFused(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	shapes := []modernShape{
		{48, 4, 96, 2, 9, checkpoint.GELUTanh, false}, // the last layer is local
		{60, 3, 100, 2, 41, checkpoint.ReLU, true},
	}
	if !testing.Short() {
		shapes = append(shapes, modernShape{16, 2, 24, 1, 128, checkpoint.GELU, false}, modernShape{128, 2, 96, 4, 128, checkpoint.GELU, true})
	}
	for _, shape := range shapes {
		compareFused(t, rng, randomModern(t, rng, shape), "ModernBERT", 8e-2)
	}
}

// A base model gets the same head from the same seed, and that of a model for masked language modeling starts from its
// dense layer, as in transformers.
func TestModernBertHead(t *testing.T) {
	r := newRuntime(t)
	for name, stored := range map[string]bool{"modernbert-mlm": true, "modernbert-model": false} {
		dir := "../checkpoint/testdata/" + name
		var heads [][]float32
		for _, seed := range []uint64{1, 1, 2} {
			l := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: seed})
			heads = append(heads, readTensor(t, l, func(l *Learner) ([]float32, error) { return l.read(l.net.pool.weight, 16*16) }))
		}
		if heads[0][5] != heads[1][5] || (heads[0][5] == heads[2][5]) != stored {
			t.Errorf("%s: %v", name, []float32{heads[0][5], heads[1][5], heads[2][5]})
		}
	}
}

func TestModernBertRefuses(t *testing.T) {
	r := newRuntime(t)
	ckpt := openCheckpoint(t, "../checkpoint/testdata/modernbert-two")
	if _, err := r.loadInt8With(ckpt, nil); err == nil || !strings.Contains(err.Error(), "int8 does not support modernbert") {
		t.Errorf("int8: %v", err)
	}
	if _, err := r.NewLearner(ckpt, LearnerOptions{Context: true}); err == nil || !strings.Contains(err.Error(), "modernbert does not support context") {
		t.Errorf("context: %v", err)
	}
	m := loadModel(t, r, ckpt.Dir, FP32)
	if _, err := m.Margins([]rewardmodel.Sequence{{IDs: []int32{2, 5, 3}, Context: []int32{2, 6, 3}}}); err == nil || !strings.Contains(err.Error(), "context") {
		t.Errorf("a sequence with context: %v", err)
	}
}

// With only local layers, a token beyond the reach of all windows together does not change the first one; one within does.
func TestModernBertWindow(t *testing.T) {
	r := newRuntime(t)
	ckpt := openCheckpoint(t, "../checkpoint/testdata/modernbert-two")
	ckpt.Config.Modern.Local = []bool{true, true, true, true} // 4 layers with windows of 3 tokens reach 12
	m := closed(t)(r.loadPlain(ckpt, FP32))
	ids := make([]int32, 22)
	for i := range ids {
		ids[i] = int32(4 + i)
	}
	margin := func(change int) float32 {
		changed := append([]int32(nil), ids...)
		if change > 0 {
			changed[change] = 90
		}
		margins, err := m.Margins(sequences(changed))
		if err != nil {
			t.Fatal(err)
		}
		return margins[0]
	}
	base := margin(0)
	if d := math.Abs(float64(margin(13) - base)); d > 1e-6 {
		t.Errorf("token 13 changes the margin by %v", d)
	}
	if d := math.Abs(float64(margin(12) - base)); d < 1e-6 {
		t.Errorf("token 12 changes the margin by only %v", d)
	}
}

// The frequencies of rotary positions are those of PyTorch in float32.
func TestRotations(t *testing.T) {
	r := newRotations(160_000, 64)
	r.grow(8192)
	if len(r.frequencies) != 32 || len(r.cos) != 8192*32 || r.frequencies[0] != 1 {
		t.Fatalf("%d frequencies, %d angles, first %v", len(r.frequencies), len(r.cos), r.frequencies[0])
	}
	for at, want := range map[int]float64{0: 1, 1: math.Cos(1), 8191: math.Cos(8191)} {
		if got := float64(r.cos[at*32]); math.Abs(got-want) > 1e-6 {
			t.Errorf("cosine of position %d is %v, want %v", at, got, want)
		}
	}
}
