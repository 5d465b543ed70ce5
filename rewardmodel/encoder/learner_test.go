package encoder

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sugarme/gotch"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// alternatingLoss is the mean cross-entropy of the first aspect with labels that alternate, violation first.
func alternatingLoss(logits [][]float32) (float64, [][]float32) {
	var total float64
	grads := make([][]float32, len(logits))
	for i, z := range logits {
		grads[i] = make([]float32, len(z))
		label := i % 2
		m := float64(z[1-label]) - float64(z[label])
		wrong := 1 / (1 + math.Exp(-m))
		total += math.Log1p(math.Exp(m)) / float64(len(logits))
		grads[i][label] = float32(-wrong / float64(len(logits)))
		grads[i][1-label] = float32(wrong / float64(len(logits)))
	}
	return total, grads
}

func newLearner(t *testing.T, r *Runtime, dir string, opts LearnerOptions) *Learner {
	t.Helper()
	l, err := r.NewLearner(openCheckpoint(t, dir), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func steps(t *testing.T, l *Learner, batch []rewardmodel.Sequence, n int) float64 {
	t.Helper()
	var loss float64
	for range n {
		var err error
		if loss, err = l.Step(batch, 1e-3, alternatingLoss); err != nil {
			t.Fatal(err)
		}
	}
	return loss
}

func logits(t *testing.T, l *Learner, batch []rewardmodel.Sequence) [][]float32 {
	t.Helper()
	z, err := l.Logits(batch)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func near(t *testing.T, what string, got, want [][]float32, tolerance float64) {
	t.Helper()
	for i := range want {
		for k := range want[i] {
			if d := math.Abs(float64(got[i][k] - want[i][k])); !(d <= tolerance) {
				t.Fatalf("%s: logits[%d] = %v, want %v", what, i, got[i], want[i])
			}
		}
	}
}

func TestLearnerFitsLabels(t *testing.T) {
	r := newRuntime(t)
	for _, name := range []string{"roberta-two", "roberta-model", "bert-two", "bert-mlm"} {
		for _, p := range []Precision{FP32, BF16} {
			dir := filepath.Join("../checkpoint/testdata", name)
			l := newLearner(t, r, dir, LearnerOptions{Precision: p})
			batch := readGolden(t, dir).sequences()
			first := steps(t, l, batch, 1)
			last := steps(t, l, batch, 300)
			if !(last < first/4) {
				t.Errorf("%s %s: loss went from %v to %v", name, p, first, last)
			}
		}
	}
}

// Only the matrix multiplications are in bfloat16, as under PyTorch's autocast.
func TestResidualStreamStaysFloat32(t *testing.T) {
	r := newRuntime(t)
	l := newLearner(t, r, "../checkpoint/testdata/roberta-two", LearnerOptions{Precision: BF16})
	err := r.do(func() error {
		var scope tensorScope
		defer scope.drop()
		net := l.net.cast(&scope, l.kind)
		for i, layer := range net.layers {
			if kind := layer.qkv.weight.DType(); kind != gotch.BFloat16 {
				t.Errorf("layer %d multiplies in %v", i, kind)
			}
			if kind := layer.outputNorm.weight.DType(); kind != gotch.Float || net.stream != gotch.Float {
				t.Errorf("layer %d normalizes in %v, with a stream in %v", i, kind, net.stream)
			}
		}
		return scope.err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestChunksGiveTheSameStep checks a mini-batch that is accumulated in small chunks: with dropout, two runs result in the
// same weights, and without dropout the weights equal those of the whole batch.
func TestChunksGiveTheSameStep(t *testing.T) {
	r := newRuntime(t)
	dir := "../checkpoint/testdata/roberta-two"
	batch := readGolden(t, dir).sequences()
	zero := 0.0
	whole := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Dropout: &zero})
	parts := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Dropout: &zero, MaxTokens: 24})
	if n, _ := parts.chunks(batch); len(n) < 2 {
		t.Fatalf("the test needs several chunks, got %d", len(n))
	}
	// One small step, because Adam amplifies the rounding of near-zero gradients.
	for _, l := range []*Learner{whole, parts} {
		if _, err := l.Step(batch, 1e-4, alternatingLoss); err != nil {
			t.Fatal(err)
		}
	}
	near(t, "chunked", logits(t, parts, batch), logits(t, whole, batch), 1e-4)

	a := newLearner(t, r, dir, LearnerOptions{Precision: FP32, MaxTokens: 24, Seed: 7})
	b := newLearner(t, r, dir, LearnerOptions{Precision: FP32, MaxTokens: 24, Seed: 7})
	steps(t, a, batch, 5)
	steps(t, b, batch, 5)
	near(t, "repeated", logits(t, b, batch), logits(t, a, batch), 0)
}

func TestStateResumesExactly(t *testing.T) {
	r := newRuntime(t)
	dir := "../checkpoint/testdata/roberta-two"
	batch := readGolden(t, dir).sequences()
	file := filepath.Join(t.TempDir(), "state")

	unbroken := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: 3})
	steps(t, unbroken, batch, 4)
	if err := unbroken.SaveState(file); err != nil {
		t.Fatal(err)
	}
	steps(t, unbroken, batch, 4)

	resumed := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Seed: 3})
	if err := resumed.LoadState(file); err != nil {
		t.Fatal(err)
	}
	steps(t, resumed, batch, 4)
	near(t, "resumed", logits(t, resumed, batch), logits(t, unbroken, batch), 0)

	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"cut": whole[:len(whole)-9], "flipped": flipped, "empty": nil} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := resumed.LoadState(file); !errors.Is(err, errState) {
			t.Errorf("%s state: %v, want %v", name, err, errState)
		}
	}
}

// TestWrittenCheckpointScoresTheSame writes a trained learner's weights and loads them as a model.
func TestWrittenCheckpointScoresTheSame(t *testing.T) {
	r := newRuntime(t)
	for _, name := range []string{"roberta-reversed", "roberta-one", "bert-model"} {
		dir := filepath.Join("../checkpoint/testdata", name)
		l := newLearner(t, r, dir, LearnerOptions{Precision: FP32})
		batch := readGolden(t, dir).sequences()
		steps(t, l, batch, 3)
		tensors, err := l.Tensors(checkpoint.F32)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		if err := checkpoint.Write(out, l.Config(), checkpoint.Manifest{Version: "test", Threshold: 0.5}, tensors); err != nil {
			t.Fatal(err)
		}
		got, err := loadModel(t, r, out, FP32).Logits(batch)
		if err != nil {
			t.Fatal(err)
		}
		near(t, name, got, logits(t, l, batch), 1e-5)
	}
}

func TestRescaleChangesTheMargins(t *testing.T) {
	r := newRuntime(t)
	dir := "../checkpoint/testdata/roberta-two"
	l := newLearner(t, r, dir, LearnerOptions{Precision: FP32})
	batch := readGolden(t, dir).sequences()
	before := logits(t, l, batch)
	if err := l.Rescale(0, 0.5, 3); err != nil {
		t.Fatal(err)
	}
	for i, z := range logits(t, l, batch) {
		want := 0.5*(before[i][0]-before[i][1]) + 3
		if d := math.Abs(float64(z[0] - z[1] - want)); d > 1e-4 {
			t.Errorf("margin %v, want %v", z[0]-z[1], want)
		}
	}
}

// The weights that a learner writes in int8 are scored in int8 by default, unless that moves the scores too far.
func TestLearnerWritesInt8(t *testing.T) {
	r := newRuntime(t)
	if r.hasInt8() != nil {
		t.Skip("no int8 here")
	}
	l := newLearner(t, r, shippedModel, LearnerOptions{Precision: FP32})
	tensors, err := l.Tensors(checkpoint.I8)
	if err != nil {
		t.Fatal(err)
	}
	files, err := checkpoint.TokenizerFiles(shippedModel)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "model")
	if err := checkpoint.Write(dir, l.Config(), checkpoint.Manifest{Version: "v", Threshold: 0.5}, tensors, files...); err != nil {
		t.Fatal(err)
	}
	ckpt := openCheckpoint(t, dir)
	for _, spec := range checkpoint.Specs(ckpt.Config, true) {
		want := checkpoint.BF16
		if checkpoint.Quantizable(spec) {
			want = checkpoint.I8
		}
		if info, _ := ckpt.Info(spec.Name); info.DType != want {
			t.Errorf("%s is stored as %s, not %s", spec.Name, info.DType, want)
		}
	}
	texts, err := int8Checks(ckpt)
	if err != nil {
		t.Fatal(err)
	}
	m, exact := loadModel(t, r, dir, Auto), loadModel(t, r, shippedModel, FP32)
	if m.Precision() != Int8 {
		t.Errorf("auto is %s", m.Precision())
	}
	got, err := m.Margins(texts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := exact.Margins(texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); d > 0.5 {
			t.Errorf("text %d: margin %v, of the weights before %v", i, got[i], want[i])
		}
	}

	strict, err := NewRuntime(RuntimeOptions{Threads: 2, Device: "cpu", PrecisionLimit: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(strict.Close)
	if _, err := strict.Load(ckpt, Int8); !errors.Is(err, ErrPrecision) {
		t.Errorf("int8 under a limit of 1e-9: %v", err)
	}
	if m := loadModel(t, strict, dir, Auto); m.Precision() == Int8 {
		t.Error("auto is int8 under a limit of 1e-9")
	}
}

func TestWriteErrorReachesTheCaller(t *testing.T) {
	r := newRuntime(t)
	l := newLearner(t, r, "../checkpoint/testdata/bert-two", LearnerOptions{})
	tensors, err := l.Tensors(checkpoint.BF16)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensors[0].WriteTo(brokenWriter{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
