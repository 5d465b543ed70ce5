package encoder

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
)

// wideRuntime accepts int8 for models with few channels, over which rounding averages out less than in real ones.
func wideRuntime(t testing.TB) *Runtime {
	t.Helper()
	r, err := NewRuntime(RuntimeOptions{Threads: 2, Device: "cpu", PrecisionLimit: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// loadInt8 loads a checkpoint that has no tokenizer, checked on sequences.
func loadInt8(t testing.TB, r *Runtime, dir string, checks []rewardmodel.Sequence) *Model {
	t.Helper()
	needInt8(t, r)
	m, err := r.loadInt8With(openCheckpoint(t, dir), checks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func needInt8(t testing.TB, r *Runtime) {
	t.Helper()
	if err := r.hasInt8(); err != nil {
		t.Skip("no int8 here: ", err)
	}
}

// TestInt8Golden compares int8 with fp32 on every architecture. Over the few channels of these models, rounding averages
// out less than in real ones, which TestPanelsQuality covers.
func TestInt8Golden(t *testing.T) {
	dirs, err := filepath.Glob("../checkpoint/testdata/*/golden.json")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden checkpoints: %v", err)
	}
	r := wideRuntime(t)
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			batch := readGolden(t, dir).sequences()
			if cfg := openCheckpoint(t, dir).Config; cfg.Disentangled.Relative || cfg.ModelType == checkpoint.ModernBert {
				if _, err := r.loadInt8With(openCheckpoint(t, dir), batch); err == nil || !strings.Contains(err.Error(), "precision int8 does not support "+cfg.ModelType) {
					t.Error(err)
				}
				return
			}
			m := loadInt8(t, r, dir, batch)
			if m.Precision() != Int8 {
				t.Errorf("precision is %s", m.Precision())
			}
			want, err := loadModel(t, r, dir, FP32).Margins(batch)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.Margins(batch)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if d := math.Abs(violation(got[i]) - violation(want[i])); !(d < 6e-2) {
					t.Errorf("sequence %d: violation %v, in fp32 %v", i, violation(got[i]), violation(want[i]))
				}
			}
		})
	}
}

// TestInt8Refused covers what does not support int8: training, and a checkpoint without a tokenizer.
func TestInt8Refused(t *testing.T) {
	r := newRuntime(t)
	ckpt := openCheckpoint(t, "../checkpoint/testdata/roberta-two")
	if _, err := r.NewLearner(ckpt, LearnerOptions{Precision: Int8}); err == nil || !strings.Contains(err.Error(), "int8") {
		t.Errorf("learner: %v", err)
	}
	needInt8(t, r)
	before := ts.LiveTensors.Load()
	if _, err := r.Load(ckpt, Int8); err == nil || !strings.Contains(err.Error(), "precision int8") {
		t.Errorf("no tokenizer: %v", err)
	}
	if now := ts.LiveTensors.Load(); now > before {
		t.Errorf("%d tensors live after a refusal, %d before", now, before)
	}
	if m, _ := r.Load(ckpt, Auto); m != nil {
		if m.Precision() == Int8 {
			t.Error("auto chose int8")
		}
		m.Close()
	}
}

func TestCheckDeviation(t *testing.T) {
	exact := []float32{0, 1, -2, 3}
	if err := checkDeviation(deviationOf(len(exact), exact, []float32{0.01, 1.01, -2, 3}), Int8, DefaultPrecisionLimit); err != nil {
		t.Error(err)
	}
	for name, got := range map[string][]float32{
		"all a little": {0.2, 1.2, -1.8, 3.2},
		"one far":      {0, 1, -2, -3},
		"not a number": {0, 1, -2, float32(math.NaN())},
	} {
		err := checkDeviation(deviationOf(len(exact), exact, got), Int8, DefaultPrecisionLimit)
		if !errors.Is(err, ErrPrecision) || !strings.Contains(err.Error(), "precision int8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRotate checks the Hadamard transform: it is its own inverse up to a factor, and preserves inner products.
func TestRotate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for columns, size := range map[int]int{7: 1, 24: 8, 16: 1, 48: 1, 64: 4, 384: 8, 768: 16, 3072: 16} {
		if rotation(columns) != size {
			t.Fatalf("rotation(%d) = %d, want %d", columns, rotation(columns), size)
		}
		a, b := make([]float32, columns), make([]float32, columns)
		var want, got float64
		for k := range a {
			a[k], b[k] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
			want += float64(a[k]) * float64(b[k])
		}
		before := slices.Clone(a)
		rotate(a, columns)
		rotate(b, columns)
		for k := range a {
			got += float64(a[k]) * float64(b[k]) / float64(size)
		}
		if math.Abs(got-want) > 1e-3 {
			t.Errorf("%d columns: product %v, want %v", columns, got, want)
		}
		rotate(a, columns)
		for k := range a {
			if math.Abs(float64(a[k]/float32(size)-before[k])) > 1e-4 {
				t.Fatalf("%d columns: twice gives %v at %d, want %v", columns, a[k]/float32(size), k, before[k])
			}
		}
	}
}

// TestQuantize checks the rounding of weights, one of them far larger than the rest, by their inner products.
func TestQuantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const in, out = 64, 8
	weight, x := make([]float32, in*out), make([]float32, in)
	for i := range weight {
		weight[i] = float32(rng.NormFloat64())
	}
	weight[5] = 20
	for k := range in {
		x[k] = float32(rng.NormFloat64())
	}
	rounded, scales := quantize(slices.Clone(weight), in)
	rotated := slices.Clone(x)
	rotate(rotated, in)
	for n := range out {
		var want, got float64
		for k := range in {
			want += float64(weight[n*in+k] * x[k])
			got += float64(rounded[n*in+k]) * float64(scales[n]) * float64(rotated[k])
		}
		if math.Abs(got-want) > 0.3 { // 64 products of rounding errors near 0.01
			t.Errorf("output %d: %v, want %v", n, got, want)
		}
	}
}

// TestInt8DoesNotDependOnTheBatch scores texts alone and with others that would distort a range shared by the
// batch: the largest rows of the embedding, one token repeated, the longest sequence.
func TestInt8DoesNotDependOnTheBatch(t *testing.T) {
	m, tok := shippedInt8(t, newRuntime(t))
	mates := sequences(m.hostile())
	for _, id := range []int32{4, 100, 30000} {
		mate := make([]int32, 128)
		for k := range mate {
			mate[k] = id
		}
		mates = append(mates, rewardmodel.Sequence{IDs: mate})
	}
	long := make([]int32, m.MaxLength())
	for k := range long {
		long[k] = int32(7 * k % 30000)
	}
	mates = append(mates, rewardmodel.Sequence{IDs: long})
	var worst float64
	for _, text := range int8CheckTexts {
		seq := rewardmodel.Sequence{IDs: tok.Frame(tok.IDs(text))}
		alone, err := m.Margins([]rewardmodel.Sequence{seq})
		if err != nil {
			t.Fatal(err)
		}
		together, err := m.Margins(append(mates[:len(mates):len(mates)], seq))
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, math.Abs(violation(alone[0])-violation(together[len(mates)])))
	}
	t.Logf("largest difference %.2g", worst)
	if worst > 2e-2 {
		t.Errorf("scores differ by %.2g next to hostile texts, more than 2e-2", worst)
	}
}

// words are the embeddings of an int8 model.
func (m *Model) words() []float32 {
	return unsafe.Slice((*float32)(m.panels.model.word), m.net.cfg.Vocab*m.net.cfg.HiddenSize)
}

// hostile returns a sequence of the tokens with the largest embeddings.
func (m *Model) hostile() []int32 {
	vocab, hidden, words := m.net.cfg.Vocab, m.net.cfg.HiddenSize, m.words()
	seq := make([]int32, hidden/2) // the tokens with the largest value in every other channel
	for k := range seq {
		for id := range vocab {
			if abs(words[id*hidden+2*k]) > abs(words[int(seq[k])*hidden+2*k]) {
				seq[k] = int32(id)
			}
		}
	}
	return seq[:min(len(seq), m.MaxLength())]
}

func shippedInt8(t testing.TB, r *Runtime) (*Model, *tokenizer.Tokenizer) {
	t.Helper()
	return shippedInPanels(t, r, Int8)
}
