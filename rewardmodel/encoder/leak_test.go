package encoder

import (
	"path/filepath"
	"testing"

	"github.com/sugarme/gotch/ts"
)

// TestNothingLeaks counts live tensors over scoring, failing and training: only the weights and moments may remain, and
// Close frees those. The count may decrease when the garbage collector frees tensors of an earlier test.
func TestNothingLeaks(t *testing.T) {
	for _, name := range []string{"roberta-two", "deberta-v2"} {
		t.Run(name, func(t *testing.T) { checkLeaks(t, filepath.Join("../checkpoint/testdata", name)) })
	}
}

func checkLeaks(t *testing.T, dir string) {
	r := newRuntime(t)
	batch := readGolden(t, dir).sequences()
	before := ts.LiveTensors.Load()

	m, err := r.Load(openCheckpoint(t, dir), BF16)
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.NewLearner(openCheckpoint(t, dir), LearnerOptions{MaxTokens: 24})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Step(batch, 1e-3, alternatingLoss); err != nil { // the first step allocates the gradients
		t.Fatal(err)
	}
	loaded := ts.LiveTensors.Load()
	file := filepath.Join(t.TempDir(), "state")
	for range 3 {
		if _, err := m.Margins(batch); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Margins(sequences([]int32{1 << 20})); err == nil {
			t.Fatal("an unknown token was scored")
		}
		if _, err := l.Step(batch, 1e-3, alternatingLoss); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Logits(batch); err != nil {
			t.Fatal(err)
		}
		if err := l.SaveState(file); err != nil {
			t.Fatal(err)
		}
		if err := l.LoadState(file); err != nil {
			t.Fatal(err)
		}
	}
	if now := ts.LiveTensors.Load(); now > loaded {
		t.Errorf("%d tensors live after the work, %d before", now, loaded)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if now := ts.LiveTensors.Load(); now > before {
		t.Errorf("%d tensors live after Close, %d at the start", now, before)
	}
}
