package encoder

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestEmbeddingRowsEqualPyTorch compares five steps on different mini-batches with PyTorch (testdata/make_steps.py): all
// rows with torch.optim.Adam, although only those seen are computed, touched rows with torch.optim.SparseAdam. In
// between, the state is saved and loaded by another learner.
func TestEmbeddingRowsEqualPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		Losses  []float64
		Tensors map[string][]float64
	}
	var golden struct {
		Batches        [][][]int32
		Dense, Touched result
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	// SparseAdam adds its epsilon before the bias correction, which matters for tiny gradients.
	within := map[EmbeddingRows]float64{DenseRows: 2e-5, TouchedRows: 1e-4}
	r := newRuntime(t)
	for kind, want := range map[EmbeddingRows]result{DenseRows: golden.Dense, TouchedRows: golden.Touched} {
		opts := LearnerOptions{Precision: FP32, Dropout: new(float64), Embeddings: kind}
		l := newLearner(t, r, "../checkpoint/testdata/roberta-two", opts)
		for i, batch := range golden.Batches {
			if got := steps(t, l, sequences(batch...), 1); math.Abs(got-want.Losses[i]) > 1e-5 {
				t.Errorf("%s: loss %d is %v, want %v", kind, i, got, want.Losses[i])
			}
			if i == 2 {
				file := filepath.Join(t.TempDir(), "state")
				if err := l.SaveState(file); err != nil {
					t.Fatal(err)
				}
				l = newLearner(t, r, "../checkpoint/testdata/roberta-two", opts)
				if err := l.LoadState(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		compared := 0
		for _, p := range l.params {
			weights, ok := want.Tensors[p.names[0]]
			if !ok {
				continue
			}
			compared++
			got := readTensor(t, l, func(l *Learner) ([]float32, error) { return l.read(p.tensor, elements(p.tensor)) })
			for k, w := range weights {
				if math.Abs(float64(got[k])-w) > within[kind] {
					t.Fatalf("%s: %s[%d] is %v, want %v", kind, p.names[0], k, got[k], w)
				}
			}
		}
		if compared != len(want.Tensors) {
			t.Errorf("%s: %d of %d tensors compared", kind, compared, len(want.Tensors))
		}
	}
}

// TestWeightDecayReachesEveryRow checks that decoupled decay also shrinks rows that are in no mini-batch.
func TestWeightDecayReachesEveryRow(t *testing.T) {
	r := newRuntime(t)
	l := newLearner(t, r, "../checkpoint/testdata/roberta-two", LearnerOptions{Precision: FP32, Dropout: new(float64), WeightDecay: 0.5})
	word := func() []float32 {
		return readTensor(t, l, func(l *Learner) ([]float32, error) { return l.read(l.net.word, elements(l.net.word)) })
	}
	before := word()
	steps(t, l, sequences([]int32{0, 10, 2}, []int32{0, 11, 2}), 1)
	after := word()
	hidden := l.net.cfg.HiddenSize
	for _, row := range []int{50, 95} { // in no mini-batch
		for k := row * hidden; k < (row+1)*hidden; k++ {
			if want := before[k] * (1 - 1e-3*0.5); math.Abs(float64(after[k]-want)) > 1e-7 {
				t.Fatalf("row %d: %v became %v, want %v", row, before[k], after[k], want)
			}
		}
	}
}
